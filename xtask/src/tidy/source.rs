//! What a source file says about modules: which it declares, what it imports, which paths it names.
//!
//! Code under `#[cfg(test)]` is left out: a test may reach wherever it likes.

use super::tokens::{Kind, Token, tokens};

/// A file, or a module inside of one.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// `mod name;`
    pub(super) files: Vec<FileModule>,
    /// `mod name { … }`
    pub(super) inline: Vec<(String, Source)>,
    /// `use` declarations, one per name.
    pub(super) imports: Vec<Import>,
    /// Every path of at least two words, those of imports included.
    pub(super) paths: Vec<Path>,
    /// The names of what is defined here: types, functions, constants.
    pub(super) items: Vec<String>,
    /// Macros that `#[macro_export]` puts at the root of the crate.
    pub(super) exported_macros: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileModule {
    pub(super) name: String,
    /// What `#[path = "…"]` says, if it is there.
    pub(super) path: Option<String>,
}

/// `use path as name`, or `use path::*` where there is no name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) words: Vec<String>,
    pub(super) line: usize,
}

/// Reads a file; `None` where all of it is test code.
pub(super) fn parse(text: &str) -> Option<Source> {
    let tokens = tokens(text);
    let mut parser = Parser { tokens: &tokens, at: 0 };
    parser.module()
}

/// Words that begin an item, which ends with `;` or with its braces; other things end with a comma as well.
const ITEM_WORDS: &[&str] = &[
    "pub",
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "impl",
    "type",
    "const",
    "static",
    "mod",
    "use",
    "unsafe",
    "async",
    "extern",
    "macro_rules",
    "let",
];

/// What attributes have said about the item that follows.
#[derive(Default)]
struct Attributes {
    is_test: bool,
    is_exported: bool,
    path: Option<String>,
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    /// To the end of the file, or past the brace that closes an inline module.
    fn module(&mut self) -> Option<Source> {
        let mut source = Source::default();
        let mut attributes = Attributes::default();
        let mut depth = 0;
        while let Some(token) = self.tokens.get(self.at) {
            if let Some(is_inner) = self.attribute_here() {
                self.attribute(&mut attributes);
                if is_inner {
                    if attributes.is_test {
                        return None;
                    }
                    attributes = Attributes::default();
                }
                continue;
            }
            if token.word() == Some("pub") && !attributes.is_test {
                self.skip_visibility();
                continue;
            }
            let attributes = std::mem::take(&mut attributes);
            if attributes.is_test {
                self.skip_item();
                continue;
            }
            match &token.kind {
                Kind::Symbol('{') => depth += 1,
                Kind::Symbol('}') if depth == 0 => {
                    self.at += 1;
                    return Some(source);
                }
                Kind::Symbol('}') => depth -= 1,
                Kind::Word(word) => {
                    self.word(word, attributes, &mut source);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        Some(source)
    }

    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn peek_word(&self, ahead: usize) -> Option<&str> {
        self.peek(ahead).and_then(Token::word)
    }

    /// Takes at least the word.
    fn word(&mut self, word: &str, attributes: Attributes, source: &mut Source) {
        let next = self.peek_word(1).map(String::from);
        match (word, next) {
            ("mod", Some(name)) if self.peek(2).is_some_and(|token| token.is(';')) => {
                source.files.push(FileModule { name, path: attributes.path });
                self.at += 3;
            }
            ("mod", Some(name)) if self.peek(2).is_some_and(|token| token.is('{')) => {
                self.at += 3;
                let inner = self.module();
                source.inline.extend(inner.map(|inner| (name, inner)));
            }
            // `use<'a>` is no import but a bound.
            ("use", _) if !self.peek(1).is_some_and(|token| token.is('<')) => {
                self.at += 1;
                self.use_tree(&mut Vec::new(), source);
            }
            ("macro_rules", _) => {
                let name = self.peek_word(2).unwrap_or_default().to_string();
                if attributes.is_exported {
                    source.exported_macros.push(name.clone());
                }
                source.items.push(name);
                self.at += 3;
            }
            ("struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static", Some(name)) => {
                source.items.push(name);
                self.at += 1;
            }
            _ => self.path(source),
        }
    }

    /// A path in an expression or a type, or a lone word.
    fn path(&mut self, source: &mut Source) {
        let line = self.tokens[self.at].line;
        let before = self.at.checked_sub(1).map(|before| &self.tokens[before].kind);
        let is_crate = self.peek_word(0) == Some("crate");
        let mut words = Vec::new();
        while let Some(word) = self.peek_word(0) {
            words.push(word.to_string());
            self.at += 1;
            let goes_on =
                self.peek(0).is_some_and(|token| token.kind == Kind::Colons) && self.peek_word(1).is_some();
            if !goes_on {
                break;
            }
            self.at += 1;
        }
        // `::std::…` names another crate, `.name` a field, `$name` whatever a macro is given, unless it is `$crate`.
        let begins = match before {
            Some(Kind::Colons | Kind::Symbol('.')) => false,
            Some(Kind::Symbol('$')) => is_crate,
            _ => true,
        };
        if begins && words.len() > 1 {
            source.paths.push(Path { words, line });
        }
    }

    /// The part of a `use` after `prefix`: a path, `{…}`, `*`, with or without `as`.
    fn use_tree(&mut self, prefix: &mut Vec<String>, source: &mut Source) {
        let depth = prefix.len();
        while let Some(token) = self.tokens.get(self.at) {
            let line = token.line;
            match &token.kind {
                Kind::Word(word) => {
                    prefix.push(word.clone());
                    self.at += 1;
                    if self.peek(0).is_some_and(|token| token.kind == Kind::Colons) {
                        self.at += 1;
                        continue;
                    }
                    let mut name = word.clone();
                    if word == "self" && prefix.len() > 1 {
                        prefix.pop();
                        name = prefix.last().cloned().unwrap_or_default();
                    }
                    if self.peek_word(0) == Some("as") {
                        name = self.peek_word(1).unwrap_or_default().to_string();
                        self.at += 2;
                    }
                    import(Some(name), prefix, line, source);
                    break;
                }
                Kind::Symbol('*') => {
                    self.at += 1;
                    import(None, prefix, line, source);
                    break;
                }
                Kind::Symbol('{') => {
                    self.at += 1;
                    while self.peek(0).is_some_and(|token| !token.is('}')) {
                        let before = self.at;
                        self.use_tree(prefix, source);
                        if self.at == before || self.peek(0).is_some_and(|token| token.is(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                Kind::Colons => self.at += 1,
                _ => break,
            }
        }
        prefix.truncate(depth);
    }

    /// `pub`, `pub(crate)`, `pub(in crate::a)`: the path there is no use of it. A tuple that follows is.
    fn skip_visibility(&mut self) {
        self.at += 1;
        let is_restricted = self.peek(0).is_some_and(|token| token.is('('))
            && matches!(self.peek_word(1), Some("crate" | "super" | "self" | "in"))
            && !self.peek(2).is_some_and(|token| token.kind == Kind::Colons);
        while is_restricted && self.peek(0).is_some_and(|token| !token.is(')')) {
            self.at += 1;
        }
        self.at += usize::from(is_restricted);
    }

    /// Whether an attribute begins here, and if so whether it is an inner one.
    fn attribute_here(&self) -> Option<bool> {
        let is = |ahead, symbol| self.peek(ahead).is_some_and(|token| token.is(symbol));
        let is_inner = is(1, '!');
        (is(0, '#') && is(1 + usize::from(is_inner), '[')).then_some(is_inner)
    }

    /// `#[…]` or `#![…]`.
    fn attribute(&mut self, found: &mut Attributes) {
        let begin = self.at;
        let mut depth = 0;
        while let Some(token) = self.peek(0) {
            depth += isize::from(token.is('[')) - isize::from(token.is(']'));
            let ends = token.is(']') && depth == 0;
            self.at += 1;
            if ends {
                break;
            }
        }
        let tokens = &self.tokens[begin..self.at];
        let words: Vec<&str> = tokens.iter().filter_map(Token::word).collect();
        match words.as_slice() {
            ["cfg", "test"] | ["cfg", "all", "test", ..] | ["test"] => found.is_test = true,
            ["macro_export", ..] => found.is_exported = true,
            ["path"] => {
                found.path = tokens.iter().find_map(|token| match &token.kind {
                    Kind::Text(text) => Some(text.clone()),
                    _ => None,
                });
            }
            _ => {}
        }
    }

    /// An item, a statement, a field or a match arm.
    fn skip_item(&mut self) {
        let is_item = self.peek_word(0).is_some_and(|word| ITEM_WORDS.contains(&word));
        let mut depth = 0;
        while let Some(token) = self.peek(0) {
            match token.kind {
                Kind::Symbol('(' | '[' | '{') => depth += 1,
                // The end of what the item stands in.
                Kind::Symbol(')' | ']' | '}') if depth == 0 => return,
                Kind::Symbol(closing @ (')' | ']' | '}')) => {
                    depth -= 1;
                    if depth == 0 && closing == '}' {
                        self.at += 1;
                        return;
                    }
                }
                Kind::Symbol(';') if depth == 0 => {
                    self.at += 1;
                    return;
                }
                Kind::Symbol(',') if depth == 0 && !is_item => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

fn import(name: Option<String>, path: &[String], line: usize, source: &mut Source) {
    source.imports.push(Import { name, path: path.to_vec() });
    source.paths.push(Path { words: path.to_vec(), line });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = parse(text).unwrap();
        source.paths.iter().map(|path| path.words.join("::")).collect()
    }

    #[test]
    fn paths_of_imports_expressions_and_types_are_found() {
        let text = "
            pub(in crate::hidden) use crate::a::{self, b::{C, D as E}, *};
            use super::f;
            fn g(x: &dyn self::H, y: Vec<crate::i::J>) -> bool { x.k::<crate::l::M>() || ::std::n() }
            macro_rules! o { ($p:path) => { $crate::q::r($p::s) } }
        ";
        let expected = [
            "crate::a",
            "crate::a::b::C",
            "crate::a::b::D",
            "crate::a",
            "super::f",
            "self::H",
            "crate::i::J",
            "crate::l::M",
            "crate::q::r",
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn names_of_imports_are_those_they_have_here() {
        let source = parse("use a::{self, b::C as D, e::*};").unwrap();
        let names: Vec<Option<&str>> = source.imports.iter().map(|import| import.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("D"), None]);
    }

    #[test]
    fn test_code_is_left_out() {
        let text = "
            #[cfg(test)] use crate::a::B;
            #[cfg(test)] mod tests { use crate::c::D; }
            #[cfg(test)] #[path = \"x_tests.rs\"] mod x_tests;
            #[cfg(test)] fn f<A, B>(a: A) { crate::g::h() }
            struct S { #[cfg(test)] i: crate::j::K, l: crate::m::N }
            #[cfg(all(test, unix))] impl S { fn o() { crate::p::q() } }
            #[cfg(not(test))] fn r() { crate::s::t() }
        ";
        assert_eq!(paths(text), ["crate::m::N", "crate::s::t"]);
        assert_eq!(parse(text).unwrap().files, []);
        assert!(parse("//! All of it.\n#![cfg(test)]\nuse crate::a::B;").is_none());
    }

    #[test]
    fn modules_are_files_or_stand_inside() {
        let source =
            parse("#[path = \"other.rs\"] pub mod a; pub(crate) mod b { mod c; use super::d; } fn e() {}")
                .unwrap();
        assert_eq!(source.files, [FileModule { name: "a".into(), path: Some("other.rs".into()) }]);
        let (name, inner) = &source.inline[0];
        assert_eq!((name.as_str(), inner.files[0].name.as_str(), inner.paths.len()), ("b", "c", 1));
        assert_eq!(source.items, ["e"]);
    }
}
