//! A source file as words and symbols, without comments: as much of Rust's grammar as following its paths takes.

/// A piece of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier, a keyword or a number.
    Word(String),
    /// `::`
    Colons,
    /// A string, without its quotes.
    Text(String),
    /// Any other character.
    Symbol(char),
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Counted from 1.
    pub(super) line: usize,
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn is(&self, symbol: char) -> bool {
        self.kind == Kind::Symbol(symbol)
    }
}

/// The tokens of a file. Whatever is not Rust comes out as some tokens or other; nothing fails.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1, tokens: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) {
        let first = self.rest.chars().next().unwrap_or_default();
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(length) = raw_string_opening(self.rest) {
            self.raw_string(length);
        } else if self.rest.starts_with("b\"") || self.rest.starts_with("c\"") {
            self.take(1);
        } else if first == '"' {
            self.string();
        } else if first == '\'' {
            self.quote();
        } else if is_word(first) {
            self.word();
        } else if self.rest.starts_with("::") {
            self.emit(2, Kind::Colons);
        } else if first.is_whitespace() {
            self.take(first.len_utf8());
        } else {
            self.emit(first.len_utf8(), Kind::Symbol(first));
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn emit(&mut self, bytes: usize, kind: Kind) {
        self.tokens.push(Token { kind, line: self.line });
        self.take(bytes);
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.take(self.rest.chars().next().map_or(0, char::len_utf8));
            }
        }
    }

    fn string(&mut self) {
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let end = end.map_or(self.rest.len(), |end| end + 2);
        let text = self.rest[1..].get(..end.saturating_sub(2)).unwrap_or_default().to_string();
        self.emit(end, Kind::Text(text));
    }

    fn raw_string(&mut self, opening: usize) {
        let hashes = self.rest[..opening].matches('#').count();
        let closing = format!("\"{}", "#".repeat(hashes));
        let body = &self.rest[opening..];
        let length = body.find(&closing).unwrap_or(body.len());
        let text = body[..length].to_string();
        self.emit((opening + length + closing.len()).min(self.rest.len()), Kind::Text(text));
    }

    /// A character or a lifetime.
    fn quote(&mut self) {
        let mut characters = self.rest[1..].char_indices();
        match (characters.next(), characters.next()) {
            (Some((_, '\\')), Some((at, escaped))) => {
                let after = 1 + at + escaped.len_utf8();
                let end = self.rest[after..].find('\'').map_or(self.rest.len(), |end| after + end + 1);
                self.take(end);
            }
            (Some(_), Some((at, '\''))) => {
                self.take(1 + at + 1);
            }
            _ => {
                let name = self.rest[1..].find(|c| !is_word(c)).map_or(self.rest.len(), |end| end + 1);
                self.take(name);
            }
        }
    }

    fn word(&mut self) {
        let raw = if self.rest.starts_with("r#") { 2 } else { 0 };
        let body = &self.rest[raw..];
        let length = body.find(|c| !is_word(c)).unwrap_or(body.len());
        self.emit(raw + length, Kind::Word(body[..length].to_string()));
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of `r"`, `br#"` and the like.
fn raw_string_opening(text: &str) -> Option<usize> {
    let bare = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let quote = bare.strip_prefix('r')?.trim_start_matches('#');
    quote.starts_with('"').then(|| text.len() - quote.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).iter().filter_map(Token::word).map(String::from).collect()
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_are_no_words() {
        let source = r##"
            a // crate::b
            /* crate::c /* nested */ crate::d */ e
            "crate::f \" crate::g" r#"crate::"h"# b"i" 'j' '\'' '"' 'k: loop {} &'l str m
        "##;
        assert_eq!(words(source), ["a", "e", "loop", "str", "m"]);
    }

    #[test]
    fn raw_identifiers_are_words_and_lines_are_counted() {
        let tokens = tokens("\"two\nlines\"\nr#type::b");
        assert_eq!(tokens[0].kind, Kind::Text("two\nlines".into()));
        assert_eq!((tokens[1].word(), tokens[1].line), (Some("type"), 3));
        assert_eq!(tokens[2].kind, Kind::Colons);
    }

    #[test]
    fn files_that_break_off_end_quietly() {
        for source in ["\"", "r#\"a", "/* a", "'", "'\\", "b\"", "a::", "\"\\"] {
            tokens(source);
        }
    }
}
