//! Nodes have the names, ops, inputs and devices that TensorFlow 2.21's Python front end gives the same program (in
//! `tf.compat.v1` style); the listings were made with it.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{DType, DeviceName, DeviceScope, Graph, Result, Status};

/// `name | op | inputs | device` of every node, control inputs in alphabetical order as TensorFlow lists them.
fn listing(g: &Graph) -> Vec<String> {
    let line = |node: tensorfleet_proto::tensorflow::NodeDef| {
        let (mut control, mut inputs): (Vec<String>, Vec<String>) =
            node.input.into_iter().partition(|input| input.starts_with('^'));
        control.sort();
        inputs.extend(control);
        format!("{} | {} | {} | {}", node.name, node.op, inputs.join(","), node.device)
    };
    g.to_graph_def().node.into_iter().map(line).collect()
}

fn check(g: &Graph, expected: &str) {
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    let found = listing(g);
    let found: Vec<&str> = found.iter().map(|line| line.trim()).collect();
    assert_eq!(found, expected);
}

/// For graphs with branches and loops: the same nodes, though a captured value comes before its user.
fn check_unordered(g: &Graph, expected: &str) {
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let expected = expected.trim().lines().map(|line| line.trim().to_string()).collect();
    let found = listing(g).iter().map(|line| line.trim().to_string()).collect();
    assert_eq!(sorted(found), sorted(expected));
}

#[test]
fn reference_variables_and_operators() -> Result<()> {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let y = &v + 2;
    let _z = 2 * y - &v;
    g.global_variables_initializer()?;
    check(
        &g,
        "v/initial_value | Const |  |
         v | VariableV2 |  |
         v/Assign | Assign | v,v/initial_value |
         v/read | Identity | v |
         add/y | Const |  |
         add | AddV2 | v/read,add/y |
         mul/x | Const |  |
         mul | Mul | mul/x,add |
         sub | Sub | mul,v/read |
         init | NoOp | ^v/Assign |",
    );
    Ok(())
}

#[test]
fn resource_variables_are_read_where_they_are_used() -> Result<()> {
    let g = Graph::new();
    let w = g.new_variable("w").resource().init([[1.0f32, 2.0]]);
    let x = g.placeholder(DType::Float, [-1, 1]);
    let y = x.matmul(&w)?;
    let _z = y.relu()? + &w;
    let _p = &x * &w;
    x.add(&w)?;
    let _q = &w * &x;
    let _n = -&w;
    check(
        &g,
        "w/Initializer/initial_value | Const |  |
         w | VarHandleOp |  |
         w/IsInitialized/VarIsInitializedOp | VarIsInitializedOp | w |
         w/Assign | AssignVariableOp | w,w/Initializer/initial_value |
         w/Read/ReadVariableOp | ReadVariableOp | w |
         Placeholder | Placeholder |  |
         MatMul/ReadVariableOp | ReadVariableOp | w |
         MatMul | MatMul | Placeholder,MatMul/ReadVariableOp |
         Relu | Relu | MatMul |
         add/ReadVariableOp | ReadVariableOp | w |
         add | AddV2 | Relu,add/ReadVariableOp |
         mul/ReadVariableOp | ReadVariableOp | w |
         mul | Mul | Placeholder,mul/ReadVariableOp |
         Add_1/ReadVariableOp | ReadVariableOp | w |
         Add_1 | AddV2 | Placeholder,Add_1/ReadVariableOp |
         ReadVariableOp | ReadVariableOp | w |
         mul_1 | Mul | ReadVariableOp,Placeholder |
         ReadVariableOp_1 | ReadVariableOp | w |
         Neg | Neg | ReadVariableOp_1 |",
    );
    Ok(())
}

#[test]
fn name_scopes_and_divisions() -> Result<()> {
    let g = Graph::new();
    g.name_scope("a", || {
        g.variable("w", 1.0f32);
        g.constant(1);
        g.constant(2);
    });
    g.name_scope("a", || {
        g.constant(1);
        g.name_scope("b", || {
            let e = g.constant_named("k", 2);
            let _ = -&e;
            let _ = &e / 2;
        });
    });
    let x = g.placeholder_named("x", DType::Float, [-1, 3]);
    let _ = &x / 2.0;
    x.greater(1.0)?;
    x.equal(1.0)?;
    check(
        &g,
        "a/w/initial_value | Const |  |
         a/w | VariableV2 |  |
         a/w/Assign | Assign | a/w,a/w/initial_value |
         a/w/read | Identity | a/w |
         a/Const | Const |  |
         a/Const_1 | Const |  |
         a_1/Const | Const |  |
         a_1/b/k | Const |  |
         a_1/b/Neg | Neg | a_1/b/k |
         a_1/b/truediv/Cast | Cast | a_1/b/k |
         a_1/b/truediv/y | Const |  |
         a_1/b/truediv/Cast_1 | Cast | a_1/b/truediv/y |
         a_1/b/truediv | RealDiv | a_1/b/truediv/Cast,a_1/b/truediv/Cast_1 |
         x | Placeholder |  |
         truediv/y | Const |  |
         truediv | RealDiv | x,truediv/y |
         Greater/y | Const |  |
         Greater | Greater | x,Greater/y |
         Equal/y | Const |  |
         Equal | Equal | x,Equal/y |",
    );
    Ok(())
}

#[test]
fn common_ops() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [-1, 3]);
    x.reduce_sum(..)?;
    x.reduce_mean(1)?;
    x.reduce_max_keep_dims([0, 1])?;
    g.placeholder(DType::Float, tensorfleet::PartialShape::unknown()).reduce_sum(..)?;
    x.argmax(1)?;
    x.transpose([1, 0])?;
    x.reshape([-1])?;
    g.concat([&x, &x], 1)?;
    g.stack([&x, &x])?;
    x.gather([1, 2])?;
    x.index(0)?;
    x.clip_by_value(0.0, 1.0)?;
    x.cast(DType::Int32)?;
    g.random_normal([2, 3], 0.0, 1.0)?;
    check(
        &g,
        "x | Placeholder |  |
         Const | Const |  |
         Sum | Sum | x,Const |
         Mean/reduction_indices | Const |  |
         Mean | Mean | x,Mean/reduction_indices |
         Max/reduction_indices | Const |  |
         Max | Max | x,Max/reduction_indices |
         Placeholder | Placeholder |  |
         Rank | Rank | Placeholder |
         range/start | Const |  |
         range/delta | Const |  |
         range | Range | range/start,Rank,range/delta |
         Sum_1 | Sum | Placeholder,range |
         ArgMax/dimension | Const |  |
         ArgMax | ArgMax | x,ArgMax/dimension |
         transpose/perm | Const |  |
         transpose | Transpose | x,transpose/perm |
         Reshape/shape | Const |  |
         Reshape | Reshape | x,Reshape/shape |
         concat/axis | Const |  |
         concat | ConcatV2 | x,x,concat/axis |
         stack | Pack | x,x |
         GatherV2/indices | Const |  |
         GatherV2/axis | Const |  |
         GatherV2 | GatherV2 | x,GatherV2/indices,GatherV2/axis |
         strided_slice/stack | Const |  |
         strided_slice/stack_1 | Const |  |
         strided_slice/stack_2 | Const |  |
         strided_slice | StridedSlice | x,strided_slice/stack,strided_slice/stack_1,strided_slice/stack_2 |
         clip_by_value/Minimum/y | Const |  |
         clip_by_value/Minimum | Minimum | x,clip_by_value/Minimum/y |
         clip_by_value/y | Const |  |
         clip_by_value | Maximum | clip_by_value/Minimum,clip_by_value/y |
         Cast | Cast | x |
         random_normal/shape | Const |  |
         random_normal/mean | Const |  |
         random_normal/stddev | Const |  |
         random_normal/RandomStandardNormal | RandomStandardNormal | random_normal/shape |
         random_normal/mul | Mul | random_normal/RandomStandardNormal,random_normal/stddev |
         random_normal | AddV2 | random_normal/mul,random_normal/mean |",
    );
    Ok(())
}

#[test]
fn queues() -> Result<()> {
    let g = Graph::new();
    g.name_scope("s", || -> Result<()> {
        let queue = g.fifo_queue_of(10, [(DType::Float, vec![2])])?;
        queue.enqueue([[1.0, 2.0]])?;
        queue.dequeue()?;
        queue.close(false)?;
        queue.size()?;
        queue.dequeue_many(2)?;
        Ok(())
    })?;
    check(
        &g,
        "s/fifo_queue | FIFOQueueV2 |  | /device:CPU:*
         s/fifo_queue_enqueue/components_0 | Const |  |
         s/fifo_queue_enqueue | QueueEnqueueV2 | s/fifo_queue,s/fifo_queue_enqueue/components_0 |
         s/fifo_queue_Dequeue | QueueDequeueV2 | s/fifo_queue |
         s/fifo_queue_Close | QueueCloseV2 | s/fifo_queue |
         s/fifo_queue_Size | QueueSizeV2 | s/fifo_queue |
         s/fifo_queue_DequeueMany/n | Const |  |
         s/fifo_queue_DequeueMany | QueueDequeueManyV2 | s/fifo_queue,s/fifo_queue_DequeueMany/n |",
    );
    Ok(())
}

#[test]
fn control_dependencies_colocation_and_groups() -> Result<()> {
    let g = Graph::new();
    let a = g.variable("a", 1.0f32);
    let b = &a + 2;
    let read = a.value();
    let (e, d) = g.device("/job:worker/cpu:0", || -> Result<_> {
        let (e, d) = g.control_dependencies([&b], || -> Result<_> {
            let d = g.constant(3.0f32);
            let e = &a + &d;
            g.no_op()?;
            b.identity()?;
            read.identity()?;
            g.control_dependencies([&d], || -> Result<()> {
                read.identity()?;
                d.identity()?;
                Ok(())
            })?;
            g.without_dependencies(|| g.constant(4));
            g.variable("v", 2.0f32);
            Ok((e, d))
        })?;
        g.colocate_with(&a, || -> Result<()> {
            let f = d.identity()?;
            g.constant(5);
            f.identity()?;
            Ok(())
        })?;
        Ok((e, d))
    })?;
    let h = g.device("/job:ps", || read.identity())?;
    g.group([&e, &h, &b])?;
    g.group([] as [&tensorfleet::Output; 0])?;
    g.group_named("same", [&e, &d])?;
    g.global_variables_initializer()?;
    check(
        &g,
        "a/initial_value | Const |  |
         a | VariableV2 |  |
         a/Assign | Assign | a,a/initial_value |
         a/read | Identity | a |
         add/y | Const |  |
         add | AddV2 | a/read,add/y |
         Const | Const | ^add | /job:worker/device:CPU:0
         add_1 | AddV2 | a/read,Const | /job:worker/device:CPU:0
         NoOp | NoOp | ^add | /job:worker/device:CPU:0
         Identity | Identity | add | /job:worker/device:CPU:0
         Identity_1 | Identity | a/read,^add | /job:worker/device:CPU:0
         Identity_2 | Identity | a/read,^Const,^add | /job:worker/device:CPU:0
         Identity_3 | Identity | Const | /job:worker/device:CPU:0
         Const_1 | Const |  | /job:worker/device:CPU:0
         v/initial_value | Const |  | /job:worker/device:CPU:0
         v | VariableV2 |  | /job:worker/device:CPU:0
         v/Assign | Assign | v,v/initial_value | /job:worker/device:CPU:0
         v/read | Identity | v | /job:worker/device:CPU:0
         Identity_4 | Identity | Const |
         Const_2 | Const |  |
         Identity_5 | Identity | Identity_4 |
         Identity_6 | Identity | a/read | /job:ps
         group_deps/NoOp | NoOp | ^add |
         group_deps/NoOp_1 | NoOp | ^Identity_6 | /job:ps
         group_deps/NoOp_2 | NoOp | ^add_1 | /job:worker/device:CPU:0
         group_deps | NoOp | ^group_deps/NoOp,^group_deps/NoOp_1,^group_deps/NoOp_2 |
         group_deps_1 | NoOp |  |
         same | NoOp | ^Const,^add_1 | /job:worker/device:CPU:0
         init/NoOp | NoOp | ^a/Assign |
         init/NoOp_1 | NoOp | ^v/Assign | /job:worker/device:CPU:0
         init | NoOp | ^init/NoOp,^init/NoOp_1 |",
    );
    Ok(())
}

#[test]
fn conditions_and_loops() -> Result<()> {
    let g = Graph::new();
    let (x, y) = (g.constant(1), g.constant(2));
    g.cond(x.less(&y)?, || Ok(&x + &y), || Ok(&x * 3))?;
    let limit = g.constant(10);
    g.while_loop([g.constant(0)], |[i]| i.less(&limit), |[i]| Ok([i + 1]))?;
    check_unordered(
        &g,
        "Const | Const |  |
         Const_1 | Const |  |
         Less | Less | Const,Const_1 |
         cond/Switch | Switch | Less,Less |
         cond/switch_t | Identity | cond/Switch:1 |
         cond/switch_f | Identity | cond/Switch |
         cond/pred_id | Identity | Less |
         cond/add | AddV2 | cond/add/Switch:1,cond/add/Switch_1:1 |
         cond/add/Switch | Switch | Const,cond/pred_id |
         cond/add/Switch_1 | Switch | Const_1,cond/pred_id |
         cond/mul/y | Const | ^cond/switch_f |
         cond/mul | Mul | cond/mul/Switch,cond/mul/y |
         cond/mul/Switch | Switch | Const,cond/pred_id |
         cond/Merge | Merge | cond/mul,cond/add |
         Const_2 | Const |  |
         Const_3 | Const |  |
         while/Enter | Enter | Const_3 |
         while/Merge | Merge | while/Enter,while/NextIteration |
         while/Less | Less | while/Merge,while/Less/Enter |
         while/Less/Enter | Enter | Const_2 |
         while/LoopCond | LoopCond | while/Less |
         while/Switch | Switch | while/Merge,while/LoopCond |
         while/Identity | Identity | while/Switch:1 |
         while/add/y | Const | ^while/Identity |
         while/add | AddV2 | while/Identity,while/add/y |
         while/NextIteration | NextIteration | while/add |
         while/Exit | Exit | while/Switch |",
    );
    Ok(())
}

/// Seed 003, second part: a device function places variables on the ps tasks in turn, and everything else on workers.
#[test]
fn a_device_function_places_variables_round_robin() -> Result<()> {
    let next = std::sync::atomic::AtomicU32::new(0);
    let setter = DeviceScope::by(move |node| {
        let inner: DeviceName = node.device.parse()?;
        let mut outer: DeviceName = "/job:worker".parse()?;
        if &*node.op == "VariableV2" {
            let task = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2;
            outer = format!("/job:ps/task:{task}").parse()?;
        }
        Ok::<_, Status>(outer.overridden_by(&inner))
    });
    let g = Graph::new();
    let (v, s, p1, p2) = g.device(setter, || {
        let v = [1.0f32, 2.0, 3.0].map(|value| g.variable("v", value));
        let s = &v[0] + &v[1];
        let (p1, p2) = g.device("/task:1", || (2 * &s, g.device("/cpu:0", || 3 * &s)));
        (v, s, p1, p2)
    });
    assert_eq!(v.each_ref().map(|v| v.device()), ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]);
    assert_eq!(v[1].initializer().device(), "/job:ps/task:1");
    assert_eq!(v[1].value().device(), "/job:ps/task:1");
    assert_eq!(v[1].initial_value().device(), "/job:worker");
    assert_eq!(s.device(), "/job:worker");
    assert_eq!(p1.device(), "/job:worker/task:1");
    assert_eq!(p2.device(), "/job:worker/task:1/device:CPU:0");
    Ok(())
}

/// Seed 003, first part, and what `None` and a malformed device do.
#[test]
fn device_scopes_nest_reset_and_report_nonsense() {
    let g = Graph::new();
    let a = g.device("/job:ps", || g.variable("a", 1.0f32));
    let b = g.device("/job:worker", || &a + 2);
    let c = g.device("/job:worker/task:1", || &a + &b);
    assert_eq!(
        (a.device(), b.device(), c.device()),
        ("/job:ps".to_string(), "/job:worker".to_string(), "/job:worker/task:1".to_string())
    );
    let free = g.device("/job:ps", || g.device(None, || g.constant(1)));
    assert_eq!(free.device(), "");
    let broken = g.device("/job:ps/nonsense", || g.constant(1));
    assert!(broken.check().unwrap_err().message().contains("Malformed device specification"));
}

#[test]
fn attributes_with_defaults_are_written_out() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [2, 2]);
    let product = x.matmul(&x)?.operation().name();
    let def = g.to_graph_def();
    let node = def.node.iter().find(|node| node.name == product).unwrap();
    let attrs: Vec<&str> = node.attr.keys().map(String::as_str).collect();
    for attr in ["T", "transpose_a", "transpose_b"] {
        assert!(attrs.contains(&attr), "{attr} of {attrs:?}");
    }
    Ok(())
}
