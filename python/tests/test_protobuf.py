"""Messages without the `protobuf` package: what programs do with them, and what they get for wrong values."""

import copy
import os
import pickle
import subprocess
import unittest

from tensorfleet import protobuf
from tensorfleet.protobuf import text_format
from tensorfleet.protobuf.wire import DecodeError


class Messages(unittest.TestCase):
    def test_sub_messages_exist_from_their_first_change_on(self):
        config = protobuf.ConfigProto()
        self.assertFalse(config.gpu_options.allow_growth)
        self.assertFalse(config.HasField("gpu_options"))
        config.gpu_options.allow_growth = True
        self.assertTrue(config.HasField("gpu_options"))
        config.graph_options.rewrite_options.custom_optimizers.add().name = "x"
        self.assertTrue(config.HasField("graph_options"))
        config.ClearField("gpu_options")
        self.assertFalse(config.HasField("gpu_options"))

    def test_constructor_takes_what_protocol_buffers_takes(self):
        config = protobuf.ConfigProto(device_count={"GPU": 0}, gpu_options={"allow_growth": True}, device_filters=["/job:ps"], graph_options=None)
        self.assertEqual(dict(config.device_count), {"GPU": 0})
        self.assertTrue(config.gpu_options.allow_growth)
        self.assertFalse(config.HasField("graph_options"))
        self.assertEqual(protobuf.RunOptions(trace_level="FULL_TRACE").trace_level, protobuf.RunOptions.FULL_TRACE)

    def test_wrong_values_are_refused_as_protocol_buffers_does(self):
        config = protobuf.ConfigProto()
        for name, value, error, text in [
            ("intra_op_parallelism_threads", "x", TypeError, "'x' has type str, but expected one of: int"),
            ("intra_op_parallelism_threads", 1.5, TypeError, "1.5 has type float, but expected one of: int"),
            ("intra_op_parallelism_threads", 1 << 40, ValueError, "Value out of range: 1099511627776"),
            ("gpu_options", 1, AttributeError, 'Assignment not allowed to field "gpu_options" in protocol message object.'),
            ("device_filters", [], AttributeError, 'Assignment not allowed to repeated field "device_filters" in protocol message object.'),
            ("foo", 1, AttributeError, "'ConfigProto' object has no attribute 'foo'"),
        ]:
            with self.assertRaises(error) as caught:
                setattr(config, name, value)
            self.assertIn(text, str(caught.exception))
        with self.assertRaisesRegex(ValueError, 'Protocol message ConfigProto has no "foo" field.'):
            protobuf.ConfigProto(foo=1)
        with self.assertRaisesRegex(ValueError, "Direct assignment of submessage not allowed"):
            protobuf.NodeDef().attr["T"] = protobuf.AttrValue(type=1)
        with self.assertRaisesRegex(TypeError, "expected tensorflow.ConfigProto got tensorflow.RunOptions"):
            config.CopyFrom(protobuf.RunOptions())

    def test_a_oneof_has_one_member(self):
        value = protobuf.AttrValue(i=0)
        self.assertEqual(value.WhichOneof("value"), "i")
        value.list.s.append(b"a")
        self.assertEqual(value.WhichOneof("value"), "list")
        value.type = 1
        self.assertFalse(value.HasField("list"))

    def test_unknown_fields_survive(self):
        data = protobuf.RunOptions(trace_level=3).SerializeToString() + b"\xf8\x7f\x05"
        options = protobuf.RunOptions.FromString(data)
        self.assertEqual(options.SerializeToString(), data)
        options.timeout_in_ms = 5
        self.assertTrue(options.SerializeToString().endswith(b"\xf8\x7f\x05"))

    def test_bad_bytes_are_a_decode_error(self):
        for data in (b"\xff\xff", b"\x0a\xff", b"\x07"):
            with self.assertRaises(DecodeError):
                protobuf.ConfigProto.FromString(data)

    def test_copies(self):
        graph = protobuf.GraphDef()
        node = graph.node.add(name="a", op="Const")
        node.attr["value"].tensor.float_val.extend([1, 2.5])
        for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), protobuf.GraphDef.FromString(graph.SerializeToString())):
            self.assertEqual(twin, graph)
            twin.node[0].name = "b"
            self.assertNotEqual(twin, graph)

    def test_enumerations(self):
        self.assertEqual(protobuf.DataType.Name(1), "DT_FLOAT")
        self.assertEqual(protobuf.RunOptions.TraceLevel.Value("FULL_TRACE"), 3)
        with self.assertRaisesRegex(ValueError, "Enum TraceLevel has no name defined for value 33"):
            protobuf.RunOptions.TraceLevel.Name(33)

    def test_any_holds_a_message(self):
        info = protobuf.MetaGraphDef.MetaInfoDef()
        info.any_info.Pack(protobuf.RunOptions(trace_level=3))
        options = protobuf.RunOptions()
        self.assertTrue(info.any_info.Unpack(options))
        self.assertEqual(options.trace_level, 3)
        self.assertFalse(info.any_info.Unpack(protobuf.GraphDef()))


class Text(unittest.TestCase):
    def test_text_is_that_of_protocol_buffers(self):
        config = protobuf.ConfigProto(device_count={"GPU": 0, "CPU": 3}, session_inter_op_thread_pool=[{"global_name": "a\n\"é"}])
        config.graph_options.optimizer_options.opt_level = -1
        self.assertEqual(
            str(config),
            'device_count {\n  key: "CPU"\n  value: 3\n}\ndevice_count {\n  key: "GPU"\n  value: 0\n}\n'
            "graph_options {\n  optimizer_options {\n    opt_level: L0\n  }\n}\n"
            'session_inter_op_thread_pool {\n  global_name: "a\\n\\"\\303\\251"\n}\n',
        )
        self.assertEqual(text_format.MessageToString(protobuf.FloatList(value=[0.1, 1]), as_one_line=True), "value: 0.1 value: 1.0")

    def test_text_is_read(self):
        text = """device_count { key: "a" value: 3}  device_filters: ["x", 'y' "z"]
            gpu_options: < allow_growth: t >  # a comment
            graph_options { optimizer_options { opt_level: L0 } }"""
        config = text_format.Parse(text, protobuf.ConfigProto())
        self.assertEqual(list(config.device_filters), ["x", "yz"])
        self.assertEqual(text_format.Parse(str(config), protobuf.ConfigProto()), config)

    def test_errors_name_the_place(self):
        for text, expected in [
            ("foo: 3", '1:1 : Message type "tensorflow.ConfigProto" has no field named "foo".'),
            ("allow_soft_placement: 3", "1:23 : 'allow_soft_placement: 3': Expected \"true\" or \"false\"."),
            ("gpu_options {\n", '2:1 : Expected "}".'),
        ]:
            with self.assertRaises(text_format.ParseError) as caught:
                text_format.Parse(text, protobuf.ConfigProto())
            self.assertEqual(str(caught.exception), expected)

    def test_nesting_is_bounded(self):
        with self.assertRaises(text_format.ParseError):
            text_format.Parse("list { func { attr { key: 'a' value { " * 200, protobuf.AttrValue())


class Compared(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("TENSORFLEET_TF1_PYTHON"), "there is no Python with TensorFlow 1.15")
    def test_random_messages_agree_with_protocol_buffers(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_messages.py")
        done = subprocess.run([os.environ["TENSORFLEET_TF1_PYTHON"], "-W", "ignore", program, "17", "5"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("messages of", done.stdout)


if __name__ == "__main__":
    unittest.main()
