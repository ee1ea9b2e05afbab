//! `If` and `Case`: each input goes through a `Switch` into the branch that is taken, and a `Merge` takes each result
//! from whichever branch gives one. Nodes of a branch without inputs wait for its pivot, which is dead in the others.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Result, Tensor, ensure};
use tensorfleet_proto::tensorflow::{NameAttrList, NodeDef};

use super::body::Body;
use super::expand::{Caller, Expander, Gate, Inlined, canonical, control_on};

/// Branches of one `Case`; each input needs a switch for each.
const MAX_BRANCHES: usize = 4096;

/// One branch, and when it is taken.
struct Branch {
    label: String,
    body: Body,
    /// The condition's name, and which of its values leads here.
    condition: String,
    taken_if: bool,
    /// Part of the names of the switches on that condition.
    switches: String,
}

impl Expander<'_> {
    pub(super) fn branch_on_condition(&mut self, caller: &Caller) -> Result<()> {
        let (condition, arguments) = split_condition(caller)?;
        let mut condition = condition.clone();
        let dtype: DType = caller.attr("Tcond")?;
        if dtype != DType::Bool {
            condition = self.emit_once(caller.typed("_to_bool", "ToBool", vec![condition], dtype))?;
        }
        condition = self.after_controls(caller, condition, DType::Bool)?;
        let mut branches = Vec::new();
        for (attr, label, taken_if) in [("else_branch", "_else", false), ("then_branch", "_then", true)] {
            let function: NameAttrList = caller.attr(attr)?;
            let body = self.body(caller, &function, arguments.len())?;
            let (label, condition, switches) = (label.into(), condition.clone(), "_switch".into());
            branches.push(Branch { label, body, condition, taken_if, switches });
        }
        self.branch(caller, arguments, &branches)
    }

    /// An index out of range takes the last branch.
    pub(super) fn branch_on_index(&mut self, caller: &Caller) -> Result<()> {
        let (index, arguments) = split_condition(caller)?;
        let functions: Vec<NameAttrList> = caller.attr("branches")?;
        let count = functions.len();
        ensure!((1..=MAX_BRANCHES).contains(&count), InvalidArgument, "a Case cannot have {count} branches");
        let index = self.after_controls(caller, index.clone(), DType::Int32)?;
        let number = |expander: &mut Self, name: String, value: usize| {
            let mut node = caller.node(&name, "Const", vec![control_on(&index)]);
            node.attr.insert("dtype".into(), DType::Int32.into_attr());
            node.attr.insert("value".into(), Tensor::scalar(value as i32).into_attr());
            expander.emit_once(node)
        };
        let zero = number(self, "_zero".into(), 0)?;
        let last = number(self, "_last".into(), count - 1)?;
        let compare = |name: &str, op: &str, other: &str| {
            caller.typed(name, op, vec![index.clone(), other.to_string()], DType::Int32)
        };
        let below = self.emit_once(compare("_below", "Less", &zero))?;
        let above = self.emit_once(compare("_above", "Greater", &last))?;
        let outside = self.emit_once(caller.node("_outside", "LogicalOr", vec![below, above]))?;
        let chosen = caller.typed("_chosen", "SelectV2", vec![outside, last, index.clone()], DType::Int32);
        let chosen = self.emit_once(chosen)?;
        let mut branches = Vec::with_capacity(count);
        for (position, function) in functions.iter().enumerate() {
            let body = self.body(caller, function, arguments.len())?;
            let this = number(self, format!("_number_{position}"), position)?;
            let name = format!("_is_{position}");
            let equal = caller.typed(&name, "Equal", vec![chosen.clone(), this], DType::Int32);
            let condition = self.emit_once(equal)?;
            let (label, switches) = (format!("_branch_{position}"), format!("_switch_{position}"));
            branches.push(Branch { label, body, condition, taken_if: true, switches });
        }
        self.branch(caller, arguments, &branches)
    }

    /// `value`, once the call's control inputs are there.
    fn after_controls(&mut self, caller: &Caller, value: String, dtype: DType) -> Result<String> {
        if caller.controls.is_empty() {
            return Ok(value);
        }
        let mut inputs = vec![value];
        inputs.extend(caller.controls.iter().cloned());
        self.emit_once(caller.typed("_condition", "Identity", inputs, dtype))
    }

    fn branch(&mut self, caller: &Caller, arguments: &[String], branches: &[Branch]) -> Result<()> {
        let types: Vec<DType> = caller.attr("Tout")?;
        let mut inlined = Vec::with_capacity(branches.len());
        let mut pivots = Vec::with_capacity(branches.len());
        for branch in branches {
            ensure!(
                branch.body.result_types == types,
                InvalidArgument,
                "branch '{}' returns {} values of types that are not those of the node",
                branch.body.name,
                branch.body.result_types.len()
            );
            let (pivot, body) = self.one_branch(caller, arguments, branch)?;
            pivots.push(pivot);
            inlined.push(body);
        }
        let merge = |name: String, inputs: Vec<String>, dtype: DType| -> NodeDef {
            let mut node = caller.typed(&name, "Merge", inputs, dtype);
            node.attr.insert("N".into(), (branches.len() as i64).into_attr());
            node
        };
        let done = if inlined.iter().all(|body| body.effects.is_empty()) {
            None
        } else {
            let mut ends = Vec::with_capacity(branches.len());
            for ((branch, body), pivot) in branches.iter().zip(&inlined).zip(&pivots) {
                let mut inputs = vec![pivot.clone()];
                inputs.extend(body.effects.iter().map(|node| format!("^{node}")));
                let name = format!("{}_done", branch.label);
                ends.push(self.emit_once(caller.typed(&name, "Identity", inputs, DType::Bool))?);
            }
            Some(self.emit_once(merge("_done".into(), ends, DType::Bool))?)
        };
        let mut results = Vec::with_capacity(types.len());
        for (index, &dtype) in types.iter().enumerate() {
            let inputs = inlined.iter().map(|body| body.results[index].clone()).collect();
            results.push(self.emit_once(merge(format!("_merge_{index}"), inputs, dtype))?);
        }
        self.give_results(caller, results, &types, done)
    }

    fn one_branch(
        &mut self,
        caller: &Caller,
        arguments: &[String],
        branch: &Branch,
    ) -> Result<(String, Inlined)> {
        let Branch { label, body, condition, taken_if, switches } = branch;
        let side = u32::from(*taken_if);
        let mut inputs = Vec::with_capacity(arguments.len());
        for (index, (argument, &dtype)) in arguments.iter().zip(&body.arguments).enumerate() {
            let name = format!("{switches}_input_{index}");
            let switch = caller.typed(&name, "Switch", vec![argument.clone(), condition.clone()], dtype);
            inputs.push(canonical(&self.emit_once(switch)?, side));
        }
        let pivot = vec![condition.clone(), condition.clone()];
        let pivot =
            self.emit_once(caller.typed(&format!("{switches}_pivot"), "Switch", pivot, DType::Bool))?;
        let name = format!("{label}_pivot");
        let pivot = caller.typed(&name, "Identity", vec![canonical(&pivot, side)], DType::Bool);
        let pivot = self.emit_once(pivot)?;
        let gate = Gate { node: pivot.clone(), holds_arguments: false, holds_constants: true };
        let inlined = self.inline(caller, label, body, &inputs, &gate)?;
        Ok((pivot, inlined))
    }
}

fn split_condition(caller: &Caller) -> Result<(&String, &[String])> {
    let split = caller.inputs.split_first();
    split.ok_or_else(|| tensorfleet_core::Status::invalid_argument("the node has no condition"))
}
