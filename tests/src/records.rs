//! Record files of a case: `NamedTensorProto` messages, each after its length as a varint.

use bytes::{Buf, Bytes};
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::NamedTensorProto;

/// A tensor with the name it is fed to or was fetched from.
#[derive(Clone, Debug)]
pub struct Record {
    /// The tensor's name in the graph, e.g. `x:0`.
    pub name: String,
    /// The value.
    pub value: Tensor,
}

/// Reads all records of a file.
pub fn parse_records(mut bytes: Bytes) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while bytes.has_remaining() {
        let malformed = |what: &str| Status::data_loss(format!("record {}: {what}", records.len()));
        let length = prost_varint(&mut bytes).ok_or_else(|| malformed("its length is cut short"))?;
        let length = usize::try_from(length).ok().filter(|&length| length <= bytes.len());
        let length = length.ok_or_else(|| malformed("it reaches past the end of the file"))?;
        let message = NamedTensorProto::decode(bytes.split_to(length))
            .map_err(|error| malformed(&format!("not a NamedTensorProto: {error}")))?;
        let proto = message.tensor.ok_or_else(|| malformed("it has no tensor"))?;
        let value = Tensor::from_proto(&proto)
            .map_err(|status| status.context(format!("record {} ({})", records.len(), message.name)))?;
        records.push(Record { name: message.name, value });
    }
    Ok(records)
}

fn prost_varint(bytes: &mut Bytes) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    fn encoded(name: &str, value: Tensor) -> Vec<u8> {
        NamedTensorProto { name: name.into(), tensor: Some(value.to_proto()) }
            .encode_length_delimited_to_vec()
    }

    #[test]
    fn records_are_read_in_order() {
        let mut file = encoded("x:0", Tensor::vector(&[1.0f32; 100]).unwrap());
        file.extend(encoded("y:0", "text".into()));
        let records = parse_records(file.into()).unwrap();
        assert_eq!(records.iter().map(|record| &*record.name).collect::<Vec<_>>(), ["x:0", "y:0"]);
        assert_eq!(records[0].value.num_elements(), 100);
        assert_eq!(&records[1].value.to_string_scalar().unwrap()[..], b"text");
    }

    #[test]
    fn a_cut_file_is_data_loss_and_not_a_panic() {
        let file = encoded("x:0", Tensor::scalar(1i64));
        for length in 1..file.len() {
            let status = parse_records(file[..length].to_vec().into()).unwrap_err();
            assert_eq!(status.code(), Code::DataLoss, "{status}");
        }
        assert!(parse_records(vec![0xff; 11].into()).is_err());
    }
}
