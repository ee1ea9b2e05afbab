//! Local check of conformance vectors.
use crate::kernel::*;
use crate::node_spec::NodeSpec;
use crate::testing::test_step;
use prost::Message;
use std::collections::HashMap;
use tensorfleet_core::*;
use tensorfleet_proto::tensorflow::{GraphDef, NamedTensorProto};

fn records(path: &str) -> Vec<(String, Tensor)> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut buf = &bytes[..];
    let mut out = vec![];
    while !buf.is_empty() {
        let r = NamedTensorProto::decode_length_delimited(&mut buf).unwrap();
        out.push((r.name, Tensor::from_proto(&r.tensor.unwrap_or_default()).unwrap()));
    }
    out
}
fn eval(
    graph: &Graph,
    feeds: &HashMap<String, Tensor>,
    fetch: &str,
    cache: &mut HashMap<(usize, u32), Tensor>,
) -> Result<Tensor> {
    if let Some(t) = feeds.get(fetch) {
        return Ok(t.clone());
    }
    let (name, slot) = parse_endpoint(fetch)?;
    let id = graph.find(name).ok_or_else(|| Status::not_found("no node"))?;
    if let Some(t) = cache.get(&(id.index(), slot)) {
        return Ok(t.clone());
    }
    let node = graph.node(id);
    let mut inputs: Vec<Option<Value>> = vec![];
    for e in &node.inputs {
        let n = format!("{}:{}", graph.node(e.node).name, e.slot);
        inputs.push(Some(Value::Tensor(eval(graph, feeds, &n, cache)?)));
    }
    let spec = NodeSpec::resolve(node)?;
    let mut outputs: Outputs = (0..spec.outputs.len()).map(|_| None).collect();
    match spec.kernel()? {
        KernelBox::Sync(k) => k.compute(&mut Context {
            step: &test_step(),
            frame: FrameIteration::default(),
            is_input_dead: false,
            inputs: &mut inputs,
            outputs: &mut outputs,
        })?,
        _ => return Err(Status::not_found("async")),
    }
    for (i, o) in outputs.into_iter().enumerate() {
        match o {
            Some(Value::Tensor(t)) => {
                cache.insert((id.index(), i as u32), t);
            }
            _ => return Err(Status::not_found("ref")),
        }
    }
    Ok(cache[&(id.index(), slot)].clone())
}
fn floats(t: &Tensor) -> Option<Vec<f64>> {
    Some(match t.dtype() {
        DType::Float => t.as_slice::<f32>().unwrap().iter().map(|&x| x as f64).collect(),
        DType::Double => t.as_slice::<f64>().unwrap().to_vec(),
        DType::Half => t.as_slice::<half::f16>().unwrap().iter().map(|x| x.to_f64()).collect(),
        DType::BFloat16 => t.as_slice::<half::bf16>().unwrap().iter().map(|x| x.to_f64()).collect(),
        DType::Complex64 => t
            .as_slice::<num_complex::Complex<f32>>()
            .unwrap()
            .iter()
            .flat_map(|x| [x.re as f64, x.im as f64])
            .collect(),
        DType::Complex128 => {
            t.as_slice::<num_complex::Complex<f64>>().unwrap().iter().flat_map(|x| [x.re, x.im]).collect()
        }
        _ => return None,
    })
}
#[test]
fn vectors() {
    let Ok(text) = std::fs::read_to_string("/tmp/mathwork/cases.txt") else { return };
    let (mut pass, mut fail, mut skip) = (0, 0, 0);
    let mut missing: HashMap<String, usize> = HashMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        if parts[0] != "case" {
            continue;
        }
        let (name, dir, times_max) = (parts[1], parts[2], parts[3] == "1");
        let tol: HashMap<&str, (f64, f64)> = parts[4..]
            .iter()
            .map(|p| {
                let (k, v) = p.split_once('=').unwrap();
                let (r, a) = v.split_once(',').unwrap();
                (k, (r.parse().unwrap(), a.parse().unwrap()))
            })
            .collect();
        let graph = GraphDef::decode(&std::fs::read(format!("{dir}/graph.pb")).unwrap()[..]).unwrap();
        let Ok(graph) = Graph::from_graph_def(graph) else {
            println!("graph? {name}");
            continue;
        };
        let bad: Vec<String> = graph
            .nodes()
            .iter()
            .filter(|n| crate::catalogue::find(&n.op).is_none())
            .map(|n| n.op.to_string())
            .collect();
        let feeds = records(&format!("{dir}/feeds.pb"));
        let expected = records(&format!("{dir}/expected.pb"));
        let mut ok = true;
        let mut skipped = !bad.is_empty()
            || graph.nodes().iter().any(|n| matches!(&*n.op, "NextIteration" | "Merge" | "Switch" | "Enter"));
        for b in bad {
            *missing.entry(b).or_default() += 1;
        }
        while lines.peek().is_some_and(|l| !l.starts_with("case")) {
            let l = lines.next().unwrap();
            if skipped {
                continue;
            }
            let p: Vec<&str> = l.split_whitespace().collect();
            if p[0] == "skip" {
                skipped = true;
                continue;
            }
            let list = |s: &str| -> Vec<String> {
                if s == "-" { vec![] } else { s.split('|').map(String::from).collect() }
            };
            let fd: HashMap<String, Tensor> =
                list(p[1]).iter().map(|i| feeds[i.parse::<usize>().unwrap()].clone()).collect();
            let code: i32 = p[4].parse().unwrap();
            let factor: f64 = p[5].parse().unwrap();
            let mut cache = HashMap::new();
            let results: Result<Vec<Tensor>> =
                list(p[2]).iter().map(|f| eval(&graph, &fd, f, &mut cache)).collect();
            match results {
                Err(s) if s.code() as i32 == code => {
                    let want = p[6].replace('~', " ");
                    if want != "-" && !s.text().contains(&want) {
                        println!("{name}: message {} lacks {want}", s.text());
                        ok = false;
                    }
                }
                Err(s) => {
                    if s.code() == Code::NotFound {
                        skipped = true
                    } else {
                        println!("{name}: got error {s:?} want code {code}");
                        ok = false;
                    }
                }
                Ok(_) if code != 0 => {
                    println!("{name}: no error, want {code} {}", p[6]);
                    ok = false;
                }
                Ok(got) => {
                    for ((f, got), e) in list(p[2]).iter().zip(got).zip(list(p[3])) {
                        let Ok(e) = e.parse::<usize>() else { continue };
                        let want = &expected[e].1;
                        if got.dtype() != want.dtype() || got.shape() != want.shape() {
                            println!(
                                "{name} {f}: {} {} want {} {}",
                                got.dtype(),
                                got.shape(),
                                want.dtype(),
                                want.shape()
                            );
                            ok = false;
                            continue;
                        }
                        if let (Some(g), Some(w)) = (floats(&got), floats(want)) {
                            let dt = format!("DT_{}", got.dtype().name().to_uppercase());
                            let (r, a) = tol.get(&dt[..]).copied().unwrap_or((0.0, 0.0));
                            let m = w.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
                            let s = if times_max && m > 1.0 { m } else { 1.0 };
                            let bad: Vec<_> = g
                                .iter()
                                .zip(&w)
                                .enumerate()
                                .filter(|(_, (g, w))| {
                                    !(g == w
                                        || (g.is_nan() && w.is_nan())
                                        || (*g - *w).abs() <= factor * (a * s + r * w.abs()))
                                })
                                .take(6)
                                .collect();
                            if !bad.is_empty() {
                                println!("{name} {f} {} {}: {bad:?}", got.dtype(), got.shape());
                                ok = false;
                            }
                        } else if got.dtype() == DType::String {
                            if got.as_strings().unwrap() != want.as_strings().unwrap() {
                                println!("{name} {f}: strings");
                                ok = false;
                            }
                        } else if got.as_bytes().unwrap() != want.as_bytes().unwrap() {
                            println!(
                                "{name} {f}: ints {} {:?} {:?}",
                                got.dtype(),
                                got.as_bytes()
                                    .unwrap()
                                    .iter()
                                    .zip(want.as_bytes().unwrap())
                                    .enumerate()
                                    .filter(|(_, (a, b))| a != b)
                                    .take(5)
                                    .collect::<Vec<_>>(),
                                got.shape()
                            );
                            ok = false;
                        }
                    }
                }
            }
        }
        if skipped {
            skip += 1
        } else if ok {
            pass += 1
        } else {
            fail += 1
        }
    }
    println!("pass {pass} fail {fail} skip {skip}");
    let mut m: Vec<_> = missing.into_iter().collect();
    m.sort_by_key(|x| std::cmp::Reverse(x.1));
    println!("{m:?}");
}
