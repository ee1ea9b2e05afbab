//! Text between two marks of a file, which a command writes and people leave alone.

use std::path::Path;

/// Replaces what stands between two lines of a file.
pub(crate) fn write_between(path: &Path, begin: &str, end: &str, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let old = std::fs::read_to_string(path).map_err(failed)?;
    let new = replaced_between(&old, begin, end, text);
    let new = new.ok_or_else(|| format!("{} has no lines '{begin}' and '{end}'", path.display()))?;
    std::fs::write(path, new).map_err(failed)
}

fn replaced_between(old: &str, begin: &str, end: &str, text: &str) -> Option<String> {
    let ((before, _), (_, after)) = (old.split_once(begin)?, old.split_once(end)?);
    Some(format!("{before}{begin}\n{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let new = replaced_between("head\n<a>\nold\n<b>\ntail\n", "<a>", "<b>", "new\n").unwrap();
        assert_eq!(new, "head\n<a>\nnew\n<b>\ntail\n");
        assert_eq!(replaced_between("head\n", "<a>", "<b>", "new\n"), None);
    }
}
