//! Whole files: reading, writing, and finding them by pattern.

use std::path::PathBuf;

use tensorfleet_core::{PartialShape, Result, Tensor, ensure};
use tensorfleet_files::{AtomicFile, FileAccess};

use super::checkpoints::text;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ReadFile", "filename: string -> contents: string")
        .shape(scalars)
        .kernel(read_file)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("WriteFile", "filename: string, contents: string ->")
        .stateful()
        .shape(scalars)
        .kernel(write_file)
        .cost(Cost::Heavy)
        .waits_for_disk(),
    Op::new("MatchingFiles", "pattern: string -> filenames: string")
        .shape(matching_shape)
        .kernel(matching_files)
        .cost(Cost::Heavy)
        .waits_for_disk(),
];

fn matching_shape(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::vector(None)])
}

fn path_in(ctx: &Context<'_>) -> Result<PathBuf> {
    let name = ctx.input(0)?;
    ensure!(
        name.is_scalar(),
        InvalidArgument,
        "Input filename tensor must be scalar, but had shape: {}",
        name.shape()
    );
    Ok(PathBuf::from(text(name.to_string_scalar()?, "filename")?))
}

fn read_file(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let contents = ctx.file_access().read(path_in(ctx)?)?;
        ctx.set_output(0, Tensor::string(contents));
        Ok(())
    }))
}

/// `WriteFile`: makes missing directories; the file appears whole.
fn write_file(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let path = path_in(ctx)?;
        let contents = ctx.input(1)?;
        ensure!(
            contents.is_scalar(),
            InvalidArgument,
            "Contents tensor must be scalar, but had shape: {}",
            contents.shape()
        );
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            ctx.file_access().create_dir_all(directory)?;
        }
        let mut file = AtomicFile::create(ctx.file_access(), path)?;
        file.write(contents.to_string_scalar()?)?;
        file.commit()
    }))
}

/// `MatchingFiles`: the files that match any of the patterns, in order.
fn matching_files(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let mut found = Vec::new();
        for pattern in ctx.input(0)?.as_strings()? {
            let pattern = text(pattern, "pattern")?;
            ctx.file_access().check(fixed_part(&pattern))?;
            // What a link inside leads to may be outside: that is not listed.
            let matching = files_matching(ctx.file_access(), &pattern);
            match pattern.contains('/') {
                true => found.extend(matching),
                // TensorFlow names the directory it looked into.
                false => found.extend(matching.into_iter().map(|name| format!("./{name}"))),
            }
        }
        found.sort();
        let count = found.len();
        ctx.set_output(0, Tensor::from_strings(found.into_iter().map(Into::into).collect(), &[count])?);
        Ok(())
    }))
}

/// Whether a step may touch every file that matches.
pub(super) fn check_pattern(access: &FileAccess, pattern: &str) -> Result<()> {
    access.check(fixed_part(pattern))?;
    paths_matching(access, pattern).iter().try_for_each(|path| access.check(path))
}

/// The directory a pattern begins with, before the first wild card.
fn fixed_part(pattern: &str) -> &str {
    match pattern.find(['*', '?', '[']) {
        None => pattern,
        Some(wild) => match pattern[..wild].rfind('/') {
            None => ".",
            Some(0) => "/",
            Some(slash) => &pattern[..slash],
        },
    }
}

/// The existing files that match, and that may be touched.
pub(super) fn files_matching(access: &FileAccess, pattern: &str) -> Vec<String> {
    let mut found = paths_matching(access, pattern);
    found.retain(|path| access.exists(path));
    found
}

/// The paths that match: some of those without wild cards may not exist. Wild cards stand for parts of one name, never for several.
fn paths_matching(access: &FileAccess, pattern: &str) -> Vec<String> {
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    let mut found = vec![root.to_string()];
    for name in rest.split('/') {
        let join = |directory: &String, name: &str| match directory.as_str() {
            "" | "/" => format!("{directory}{name}"),
            directory => format!("{directory}/{name}"),
        };
        found = match name.contains(['*', '?', '[']) {
            false => found.iter().map(|directory| join(directory, name)).collect(),
            true => {
                let matching = |directory: &String| {
                    let names = names_in(access, directory).into_iter().filter(|found| matches(name, found));
                    names.map(|name| join(directory, &name)).collect::<Vec<_>>()
                };
                found.iter().flat_map(matching).collect()
            }
        };
    }
    found
}

/// The names in a directory; one that cannot be read has none.
fn names_in(access: &FileAccess, directory: &str) -> Vec<String> {
    let directory = if directory.is_empty() { "." } else { directory };
    let names = access.names_in(directory).unwrap_or_default();
    names.into_iter().filter_map(|name| name.into_string().ok()).collect()
}

/// Whether a name matches a pattern of `*`, `?` and `[a-z]`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the last star has to take one character more.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        match one_matches(&pattern[p..], name[n]) {
            Some(len) => (p, n) = (p + len, n + 1),
            None => match retry {
                Some((after_star, taken)) => {
                    retry = Some((after_star, taken + 1));
                    (p, n) = (after_star, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// How much of the pattern stands for this character, if it does at all.
fn one_matches(pattern: &[char], c: char) -> Option<usize> {
    match *pattern.first()? {
        '?' => Some(1),
        '\\' => (*pattern.get(1)? == c).then_some(2),
        '[' => {
            let end = 2 + pattern.get(2..)?.iter().position(|&c| c == ']')?;
            let negated = matches!(pattern[1], '^' | '!') && end > 2;
            let set = &pattern[if negated { 2 } else { 1 }..end];
            let in_range = set.windows(3).any(|range| range[1] == '-' && (range[0]..=range[2]).contains(&c));
            ((in_range || set.contains(&c)) != negated).then_some(end + 1)
        }
        literal => (literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    #[test]
    fn files_are_written_read_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let write = |name: &str| {
            let op = test_op("WriteFile").input(Tensor::string(path(name)));
            op.input(Tensor::string(name.to_string())).run().unwrap();
        };
        ["sub/b.bin", "sub/a.bin", "sub/c.txt", "other/a.bin"].into_iter().for_each(write);
        let read = test_op("ReadFile").input(Tensor::string(path("sub/a.bin")));
        assert_eq!(read.run_one().unwrap(), Tensor::string("sub/a.bin"));
        let find = |pattern: &str| {
            let found = test_op("MatchingFiles").input(Tensor::string(path(pattern))).run_one().unwrap();
            let names =
                found.as_strings().unwrap().iter().map(|name| String::from_utf8(name.to_vec()).unwrap());
            let prefix = path("");
            names.map(|name| name.trim_start_matches(&prefix).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(find("sub/*.bin"), ["sub/a.bin", "sub/b.bin"]);
        assert_eq!(find("*/a.*"), ["other/a.bin", "sub/a.bin"]);
        assert_eq!(find("sub/c.txt"), ["sub/c.txt"]);
        assert!(find("none/*").is_empty() && find("sub/d").is_empty());
        let missing = test_op("ReadFile").input(Tensor::string(path("none")));
        assert_eq!(missing.run().unwrap_err().code(), Code::NotFound);
        let folder = test_op("ReadFile").input(Tensor::string(path("sub")));
        assert_eq!(folder.run().unwrap_err().code(), Code::FailedPrecondition);
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name) in
            [("*", "x"), ("a*c", "abbc"), ("a?c", "abc"), ("[a-c]x", "bx"), ("[^a]", "b"), ("*.tf*", "a.tf1")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a*c", "abb"), ("a?c", "ac"), ("[a-c]x", "dx"), ("[^a]", "a"), ("[", "["), ("", "x")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
