//! A text to learn from, made by a small grammar.
//!
//! A sentence is one of the [`SENTENCES`] with each group in braces replaced by one of its words, all choices alike and
//! independent; a full stop and a blank follow. So the probability of every sentence is known, which is what `char_lstm` is held against.

use crate::Random;

/// Groups of words that stand in the same places.
pub const GROUPS: [(&str, &[&str]); 10] = [
    ("animal", &["dog", "cat", "horse", "sheep", "goat", "cow", "fox", "hare"]),
    ("bird", &["owl", "crow", "gull", "heron", "swift", "wren"]),
    ("food", &["bread", "cheese", "soup", "honey", "apples", "beans", "fish"]),
    ("colour", &["red", "green", "white", "black", "brown", "grey"]),
    ("place", &["harbour", "market", "bridge", "garden", "tower", "mill", "church"]),
    ("person", &["baker", "smith", "sailor", "farmer", "doctor", "weaver", "miller"]),
    ("vehicle", &["cart", "boat", "train", "wagon", "ship", "bicycle"]),
    ("weather", &["rain", "snow", "fog", "wind", "frost"]),
    ("season", &["spring", "summer", "autumn", "winter"]),
    ("number", &["two", "three", "four", "five", "six", "seven"]),
];

/// What sentences look like.
pub const SENTENCES: [&str; 12] = [
    "the {colour} {animal} slept behind the {place}",
    "a {animal} and a {animal} drank from the well",
    "the {person} fed the {animal} with {food}",
    "{number} {colour} birds flew like the {bird} over the {place}",
    "at dawn the {bird} sang until the {weather} came",
    "the {person} sold {food} and {food} near the {place}",
    "for supper the {person} cooked {food}",
    "the {person} repaired a {colour} {vehicle}",
    "they travelled by {vehicle} from the {place} to the {place}",
    "in {season} there was {weather} for {number} days",
    "after the {weather} of {season} the {vehicle} was late",
    "{number} days later the {bird} nested under the {vehicle}",
];

/// A text, and how surprising it is to one who knows the grammar.
pub struct Text {
    /// The sentences.
    pub text: String,
    /// The negative natural logarithm of its probability.
    pub surprise: f64,
}

/// So many sentences, the same for the same seed.
pub fn write(sentences: usize, seed: u64) -> Text {
    let mut random = Random::new(seed);
    let mut written = Text { text: String::new(), surprise: 0.0 };
    for _ in 0..sentences {
        let sentence = written.choose(&mut random, &SENTENCES);
        for (index, piece) in sentence.split(['{', '}']).enumerate() {
            // What stands in braces has an odd index.
            let words = GROUPS.iter().find(|(group, _)| index % 2 == 1 && *group == piece);
            let text = match words {
                Some((_, words)) => written.choose(&mut random, words),
                None => piece,
            };
            written.text.push_str(text);
        }
        written.text.push_str(". ");
    }
    written
}

impl Text {
    fn choose<'a>(&mut self, random: &mut Random, from: &[&'a str]) -> &'a str {
        self.surprise += (from.len() as f64).ln();
        from[random.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_of_a_sentence_exists_and_words_have_one_group() {
        for sentence in SENTENCES {
            for (index, piece) in sentence.split(['{', '}']).enumerate().filter(|(index, _)| index % 2 == 1) {
                assert!(GROUPS.iter().any(|(group, _)| *group == piece), "{sentence}: {index}");
            }
        }
        let mut words: Vec<&str> = GROUPS.iter().flat_map(|(_, words)| words.iter().copied()).collect();
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_seed_has_one_text_and_its_surprise_is_that_of_its_choices() {
        let text = write(1000, 3);
        assert_eq!(text.text, write(1000, 3).text);
        assert_ne!(text.text, write(1000, 4).text);
        let characters = text.text.len() as f64;
        let perplexity = (text.surprise / characters).exp();
        assert!((1.1..1.4).contains(&perplexity), "{perplexity}");
    }
}
