//! `While`: a frame with one `Enter`, `Merge`, `Switch`, `NextIteration` and `Exit` for each value the body changes.
//!
//! Clients pass everything a body uses as a value of the loop. What the body returns as it came, weights and handles
//! mostly, enters the frame once as a constant, and what the loop gives for it is what it got.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Result, Tensor, ensure};
use tensorfleet_proto::tensorflow::{NameAttrList, NodeDef};

use super::body::Source;
use super::expand::{Caller, Expander, Gate, canonical, control_on};

/// A value that changes from iteration to iteration.
struct Changing {
    /// Its position among the loop's values; `None` for the token of a loop that has no such value.
    position: Option<usize>,
    label: String,
    dtype: DType,
    initial: String,
}

impl Changing {
    fn part(&self, caller: &Caller, part: &str) -> String {
        format!("{}/_{part}_{}", caller.name, self.label)
    }
}

impl Expander<'_> {
    pub(super) fn repeat(&mut self, caller: &Caller) -> Result<()> {
        let (cond, body): (NameAttrList, NameAttrList) = (caller.attr("cond")?, caller.attr("body")?);
        let types: Vec<DType> = caller.attr("T")?;
        let count = caller.inputs.len();
        let (cond, body) = (self.body(caller, &cond, count)?, self.body(caller, &body, count)?);
        ensure!(
            body.result_types == types && body.arguments == types && cond.arguments == types,
            InvalidArgument,
            "the values of the loop, the arguments of '{}', and arguments and results of '{}' must have the same types",
            cond.name,
            body.name
        );
        ensure!(
            cond.results.len() == 1,
            InvalidArgument,
            "the condition '{}' returns {} values, expected one",
            cond.name,
            cond.results.len()
        );
        let is_constant = |index: usize| body.results[index] == Source::Arg(index);
        let mut changing: Vec<Changing> = (0..count)
            .filter(|&index| !is_constant(index))
            .map(|index| Changing {
                position: Some(index),
                label: index.to_string(),
                dtype: types[index],
                initial: caller.inputs[index].clone(),
            })
            .collect();
        if changing.is_empty() {
            changing.push(self.token(caller)?);
        }
        let mut in_cond: Vec<String> = Vec::with_capacity(count);
        for (index, input) in caller.inputs.iter().enumerate() {
            in_cond.push(if is_constant(index) {
                self.enter(caller, &index.to_string(), input, types[index], true)?
            } else {
                format!("{}/_merge_{index}", caller.name)
            });
        }
        for value in &changing {
            let enter = self.enter(caller, &value.label, &value.initial, value.dtype, false)?;
            let inputs = vec![enter, value.part(caller, "next")];
            let mut merge = caller.typed(&format!("_merge_{}", value.label), "Merge", inputs, value.dtype);
            merge.attr.insert("N".into(), 2i64.into_attr());
            self.emit(merge)?;
        }
        let first_merge = changing[0].part(caller, "merge");
        let gate = Gate { node: first_merge, holds_arguments: false, holds_constants: true };
        let condition = self.inline(caller, "_cond", &cond, &in_cond, &gate)?;
        let mut verdict = condition.results[0].clone();
        if cond.result_types[0] != DType::Bool {
            let to_bool = caller.typed("_to_bool", "ToBool", vec![verdict], cond.result_types[0]);
            verdict = self.emit_once(to_bool)?;
        }
        let mut inputs = vec![verdict];
        inputs.extend(condition.effects.iter().map(|node| format!("^{node}")));
        let verdict = self.emit_once(caller.node("_condition", "LoopCond", inputs))?;

        let mut in_body = in_cond;
        for value in &changing {
            let inputs = vec![value.part(caller, "merge"), verdict.clone()];
            let name = format!("_switch_{}", value.label);
            let switch = self.emit_once(caller.typed(&name, "Switch", inputs, value.dtype))?;
            let exit = format!("_exit_{}", value.label);
            self.emit(caller.typed(&exit, "Exit", vec![switch.clone()], value.dtype))?;
            if let Some(position) = value.position {
                in_body[position] = canonical(&switch, 1);
            }
        }
        let taken = canonical(&changing[0].part(caller, "switch"), 1);
        let pivot = self.emit_once(caller.typed("_pivot", "Identity", vec![taken], changing[0].dtype))?;
        let gate = Gate { node: pivot.clone(), holds_arguments: false, holds_constants: true };
        let iteration = self.inline(caller, "_body", &body, &in_body, &gate)?;
        for value in &changing {
            let mut next = value.position.map_or(pivot.clone(), |index| iteration.results[index].clone());
            if !iteration.effects.is_empty() {
                let mut inputs = vec![next];
                inputs.extend(iteration.effects.iter().map(|node| format!("^{node}")));
                let name = format!("_after_{}", value.label);
                next = self.emit_once(caller.typed(&name, "Identity", inputs, value.dtype))?;
            }
            let name = format!("_next_{}", value.label);
            self.emit(caller.typed(&name, "NextIteration", vec![next], value.dtype))?;
        }
        let results = (0..count)
            .map(|index| match is_constant(index) {
                true => caller.inputs[index].clone(),
                false => format!("{}/_exit_{index}", caller.name),
            })
            .collect();
        // A loop with effects runs even if only its constants are used.
        let has_effects = !iteration.effects.is_empty() || !condition.effects.is_empty();
        let done = has_effects.then(|| changing[0].part(caller, "exit"));
        self.give_results(caller, results, &types, done)
    }

    fn enter(
        &mut self,
        caller: &Caller,
        label: &str,
        value: &str,
        dtype: DType,
        is_constant: bool,
    ) -> Result<String> {
        let mut inputs = vec![value.to_string()];
        inputs.extend(caller.controls.iter().cloned());
        let mut node: NodeDef = caller.typed(&format!("_enter_{label}"), "Enter", inputs, dtype);
        node.attr.insert("frame_name".into(), caller.name.as_str().into_attr());
        node.attr.insert("is_constant".into(), is_constant.into_attr());
        let parallel = caller.attrs.get("parallel_iterations").cloned();
        node.attr.insert("parallel_iterations".into(), parallel.unwrap_or_else(|| 10i64.into_attr()));
        self.emit_once(node)
    }

    /// Something for a loop without changing values to go round with.
    fn token(&mut self, caller: &Caller) -> Result<Changing> {
        let mut before: Vec<String> = caller.inputs.iter().map(|input| control_on(input)).collect();
        before.extend(caller.controls.iter().cloned());
        before.sort_unstable();
        before.dedup();
        let mut node = caller.node("_token", "Const", before);
        node.attr.insert("dtype".into(), DType::Bool.into_attr());
        node.attr.insert("value".into(), Tensor::scalar(true).into_attr());
        let initial = self.emit_once(node)?;
        Ok(Changing { position: None, label: "token".into(), dtype: DType::Bool, initial })
    }
}
