//! Functions in sessions: calls, branches, loops, and libraries that are broken.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Code, DType, Result, Tensor};
use tensorfleet_proto::tensorflow::op_def::ArgDef;
use tensorfleet_proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef, attr_value::Value,
};

use crate::{DirectSession, RunOptions, SessionOptions, Task};

type Attrs<'a> = Vec<(&'a str, AttrValue)>;

fn node(name: &str, op: &str, inputs: &str, attrs: Attrs<'_>) -> NodeDef {
    let input = inputs.split_whitespace().map(str::to_string).collect();
    let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
}

fn constant(name: &str, inputs: &str, value: impl Into<Tensor>) -> NodeDef {
    let value = value.into();
    node(name, "Const", inputs, vec![("dtype", value.dtype().into_attr()), ("value", value.into_attr())])
}

fn typed(name: &str, op: &str, inputs: &str) -> NodeDef {
    node(name, op, inputs, vec![("T", DType::Int32.into_attr())])
}

fn function_attr(name: &str) -> AttrValue {
    NameAttrList { name: name.into(), ..Default::default() }.into_attr()
}

/// A function of int32 values; `results` are `name=source`.
fn function(name: &str, arguments: &str, results: &str, nodes: Vec<NodeDef>) -> FunctionDef {
    let arg =
        |name: &str, dtype: DType| ArgDef { name: name.into(), r#type: dtype.number(), ..Default::default() };
    let results: Vec<(&str, &str)> =
        results.split_whitespace().map(|result| result.split_once('=').unwrap()).collect();
    let dtype = |name: &str| if name.starts_with("bool") { DType::Bool } else { DType::Int32 };
    FunctionDef {
        signature: Some(OpDef {
            name: name.into(),
            input_arg: arguments.split_whitespace().map(|name| arg(name, DType::Int32)).collect(),
            output_arg: results.iter().map(|(name, _)| arg(name, dtype(name))).collect(),
            ..Default::default()
        }),
        node_def: nodes,
        ret: results.iter().map(|(name, source)| (name.to_string(), source.to_string())).collect(),
        ..Default::default()
    }
}

fn call(name: &str, function: &str, inputs: &str, num_inputs: usize, num_outputs: usize) -> NodeDef {
    let attrs = vec![
        ("Tin", vec![DType::Int32; num_inputs].into_attr()),
        ("Tout", vec![DType::Int32; num_outputs].into_attr()),
        ("f", function_attr(function)),
    ];
    node(name, "PartitionedCall", inputs, attrs)
}

fn run(nodes: Vec<NodeDef>, functions: Vec<FunctionDef>, fetches: &[&str]) -> Result<Vec<i32>> {
    let library = Some(FunctionDefLibrary { function: functions, ..Default::default() });
    let session = DirectSession::new(Task::local(), SessionOptions::default());
    session.extend(GraphDef { node: nodes, library, ..Default::default() })?;
    let results = session.run(&[], fetches, &[], &RunOptions::default())?;
    results.iter().map(|tensor| tensor.to_scalar::<i32>()).collect()
}

/// `a + b`, and `a` itself.
fn add() -> FunctionDef {
    function("add", "a b", "sum=sum:z:0 first=a", vec![typed("sum", "AddV2", "a b")])
}

#[test]
fn a_call_gives_what_its_function_gives_and_can_be_fetched_by_name() {
    let nodes = vec![
        constant("x", "", 3i32),
        constant("y", "", 4i32),
        call("call", "add", "x y", 2, 2),
        call("again", "add", "call call:1", 2, 2),
        node("by_name", "add", "again again", vec![]),
    ];
    let fetched = run(nodes, vec![add()], &["call", "call:1", "again", "by_name"]).unwrap();
    assert_eq!(fetched, [7, 3, 10, 20]);
}

#[test]
fn calls_within_calls_fill_in_attributes() {
    let mut generic = function("twice", "", "out=sum:z:0", vec![typed("sum", "AddV2", "v v")]);
    let placeholder = AttrValue { value: Some(Value::Placeholder("T".into())) };
    generic.node_def[0].attr.insert("T".into(), placeholder);
    let signature = generic.signature.as_mut().unwrap();
    let arg = ArgDef { name: "v".into(), type_attr: "T".into(), ..Default::default() };
    signature.input_arg = vec![arg.clone()];
    signature.output_arg = vec![ArgDef { name: "out".into(), ..arg }];
    let outer = function(
        "outer",
        "a",
        "out=inner:out:0",
        vec![node("inner", "twice", "a", vec![("T", DType::Int32.into_attr())])],
    );
    let nodes = vec![constant("x", "", 3i32), call("call", "outer", "x", 1, 1)];
    assert_eq!(run(nodes.clone(), vec![generic.clone(), outer.clone()], &["call"]).unwrap(), [6]);
    let mut without = outer;
    without.node_def[0].attr.clear();
    let status = run(nodes, vec![generic, without], &["call"]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}

fn branch_attrs(then_branch: &str, else_branch: &str, condition: DType) -> Attrs<'static> {
    vec![
        ("Tcond", condition.into_attr()),
        ("Tin", vec![DType::Int32].into_attr()),
        ("Tout", vec![DType::Int32].into_attr()),
        ("then_branch", function_attr(then_branch)),
        ("else_branch", function_attr(else_branch)),
    ]
}

/// `a` plus a constant.
fn plus(name: &str, number: i32) -> FunctionDef {
    let nodes = vec![constant("c", "", number), typed("sum", "AddV2", "a c:output:0")];
    function(name, "a", "out=sum:z:0", nodes)
}

#[test]
fn one_branch_runs() {
    for (condition, expected) in
        [(Tensor::scalar(true), 15), (Tensor::scalar(0i32), 3), (Tensor::scalar(2i32), 15)]
    {
        let dtype = condition.dtype();
        let nodes = vec![
            constant("x", "", 5i32),
            constant("condition", "", condition),
            node("if", "StatelessIf", "condition x", branch_attrs("more", "less", dtype)),
        ];
        assert_eq!(run(nodes, vec![plus("more", 10), plus("less", -2)], &["if"]).unwrap(), [expected]);
    }
    for (index, expected) in [(0, 6), (1, 15), (2, 105), (-1, 105), (9, 105)] {
        let branches = ["a", "b", "c"].map(|name| NameAttrList { name: name.into(), ..Default::default() });
        let attrs = vec![
            ("Tin", vec![DType::Int32].into_attr()),
            ("Tout", vec![DType::Int32].into_attr()),
            ("branches", branches.to_vec().into_attr()),
        ];
        let nodes = vec![
            constant("x", "", 5i32),
            constant("index", "", index),
            node("case", "Case", "index x", attrs),
        ];
        let functions = vec![plus("a", 1), plus("b", 10), plus("c", 100)];
        assert_eq!(run(nodes, functions, &["case"]).unwrap(), [expected]);
    }
}

fn loop_node(name: &str, inputs: &str, values: usize) -> NodeDef {
    let attrs = vec![
        ("T", vec![DType::Int32; values].into_attr()),
        ("cond", function_attr("below")),
        ("body", function_attr("body")),
    ];
    node(name, "StatelessWhile", inputs, attrs)
}

/// Counts `i` up to `limit`, and adds `step` to `sum`, with a branch inside.
fn counting() -> Vec<FunctionDef> {
    let below =
        function("below", "i sum step limit", "bool=less:z:0", vec![typed("less", "Less", "i limit")]);
    let body = function(
        "body",
        "i sum step limit",
        "i_next=next:z:0 sum_next=sum_1:z:0 step_next=step limit_next=limit",
        vec![
            constant("one", "", 1i32),
            constant("three", "", 3i32),
            typed("next", "AddV2", "i one:output:0"),
            typed("is_late", "Less", "three:output:0 i"),
            node("if", "If", "is_late:z:0 step", branch_attrs("more", "less", DType::Bool)),
            typed("sum_1", "AddV2", "sum if:output:0"),
        ],
    );
    vec![below, body, plus("more", 100), plus("less", 0)]
}

#[test]
fn a_loop_goes_round_and_passes_constants_through() {
    let nodes = vec![
        constant("zero", "", 0i32),
        constant("step", "", 2i32),
        constant("limit", "", 6i32),
        loop_node("while", "zero zero step limit", 4),
    ];
    let fetched = run(nodes, counting(), &["while", "while:1", "while:2", "while:3"]).unwrap();
    assert_eq!(fetched, [6, 2 * 6 + 200, 2, 6]);
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let inner = |callee: &str| vec![node("inner", callee, "a", vec![])];
    let functions = vec![
        function("f", "a", "out=inner:out:0", inner("g")),
        function("g", "a", "out=inner:out:0", inner("f")),
    ];
    let nodes = vec![constant("x", "", 1i32), call("call", "f", "x", 1, 1)];
    let status = run(nodes, functions, &["call"]).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("calls itself"), "{status}");
}

#[test]
fn functions_that_multiply_exhaust_the_limit_of_nodes() {
    let double = |level: usize| {
        let callee = format!("level{}", level + 1);
        let nodes = (0..8).map(|index| node(&format!("n{index}"), &callee, "a", vec![])).collect();
        function(&format!("level{level}"), "a", "out=n0:out:0", nodes)
    };
    let mut functions: Vec<FunctionDef> = (0..20).map(double).collect();
    functions.push(plus("level20", 1));
    let nodes = vec![constant("x", "", 1i32), call("call", "level0", "x", 1, 1)];
    let begin = tensorfleet_core::clock::Stopwatch::start();
    let status = run(nodes, functions, &["call"]).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    // It is known before any of it is made: 8^20 calls or eight, the time is the same.
    assert!(status.message().contains("would have"), "{status}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn functions_that_are_called_often_are_still_expanded() {
    let nodes = (0..200).map(|index| {
        let input = if index == 0 { "a".to_string() } else { format!("n{}:sum:0", index - 1) };
        node(&format!("n{index}"), "add", &format!("{input} a"), vec![])
    });
    let many = function("many", "a", "out=n199:sum:0", nodes.collect());
    let nodes =
        vec![constant("x", "", 1i32), call("one", "many", "x", 1, 1), call("two", "many", "one", 1, 1)];
    assert_eq!(run(nodes, vec![add(), many], &["two"]).unwrap(), [201 * 201]);
}

#[test]
fn broken_libraries_are_refused_with_the_function_named() {
    let x = || constant("x", "", 1i32);
    let cases: Vec<(Vec<NodeDef>, Vec<FunctionDef>, &str)> = vec![
        (vec![x(), call("call", "nowhere", "x", 1, 1)], vec![], "'nowhere' is not in the graph's library"),
        (vec![x(), call("call", "add", "x", 1, 2)], vec![add()], "takes 2 arguments, the call gives 1"),
        (
            vec![x(), call("call", "f", "x", 1, 1)],
            vec![function("f", "a", "out=sum:z:0", vec![typed("sum", "AddV2", "a missing:output:0")])],
            "Unknown input 'missing'",
        ),
        (
            vec![x(), call("call", "f", "x", 1, 1)],
            vec![function("f", "a", "out=sum:z:7", vec![typed("sum", "AddV2", "a a")])],
            "names no value of the function",
        ),
        (
            vec![x(), call("call", "f", "x", 1, 1)],
            vec![function(
                "f",
                "a",
                "out=sum:z:0",
                vec![typed("sum", "AddV2", "a a"), typed("sum", "Neg", "a")],
            )],
            "not unique in the function",
        ),
        (
            vec![call("a", "same", "b", 1, 1), call("b", "same", "a", 1, 1)],
            vec![function("same", "v", "out=v", vec![])],
            "cycle",
        ),
        (
            vec![x(), node("if", "If", "x x", branch_attrs("add", "more", DType::Int32))],
            vec![add(), plus("more", 1)],
            "takes 2 arguments",
        ),
    ];
    for (nodes, functions, fragment) in cases {
        let status = run(nodes, functions, &["call"]).unwrap_err();
        assert!(status.message().contains(fragment), "{status} should contain {fragment}");
    }
}
