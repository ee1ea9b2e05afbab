//! Sound as a WAV file of 16-bit samples.

use tensorfleet_core::{Result, Status, memory};

const BYTES_PER_SAMPLE: usize = 2;
const HEADER_BYTES: u32 = 36;

/// A WAV file of samples between -1 and 1, channels interleaved; louder ones are clipped.
pub(super) fn encode(samples: &[f32], sample_rate: u32, channels: usize) -> Result<Vec<u8>> {
    let too_large = || Status::invalid_argument("the audio clip is too large for a WAV file");
    let data_bytes = samples.len().checked_mul(BYTES_PER_SAMPLE).and_then(|len| u32::try_from(len).ok());
    let data_bytes = data_bytes.ok_or_else(too_large)?;
    let file_bytes = data_bytes.checked_add(HEADER_BYTES).ok_or_else(too_large)?;
    let frame_bytes = u16::try_from(channels * BYTES_PER_SAMPLE).map_err(|_| too_large())?;
    let bytes_per_second = sample_rate.checked_mul(frame_bytes as u32).ok_or_else(too_large)?;
    let mut file = memory::vec_with_room(8 + file_bytes as usize)?;
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&file_bytes.to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16u32.to_le_bytes());
    // Plain samples, not compressed.
    file.extend_from_slice(&1u16.to_le_bytes());
    file.extend_from_slice(&(channels as u16).to_le_bytes());
    file.extend_from_slice(&sample_rate.to_le_bytes());
    file.extend_from_slice(&bytes_per_second.to_le_bytes());
    file.extend_from_slice(&frame_bytes.to_le_bytes());
    file.extend_from_slice(&(BYTES_PER_SAMPLE as u16 * 8).to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&data_bytes.to_le_bytes());
    for &sample in samples {
        // A cast to an integer saturates, which is the clipping.
        file.extend_from_slice(&((sample * 32768.0).round() as i16).to_le_bytes());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_tensorflows() {
        let expected = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x08\0\0\0\x10\0\0\0\x02\0\x10\0data\x08\0\0\0\0@\0\x80\xff\x7f\xff\x7f";
        assert_eq!(encode(&[0.5, -1.0, 1.0, 2.0], 8, 1).unwrap(), expected);
        assert!(encode(&[], 8, 1 << 20).is_err());
    }
}
