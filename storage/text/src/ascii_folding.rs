//! Letters without accents, so that "Müller" and "Muller" are one word: the first character of the
//! canonical decomposition (UAX #15), if it is an ASCII letter. Other scripts stay as they are.

use unicode_normalization::char::decompose_canonical;

/// A lower-case text without the accents of Latin letters.
pub fn fold_to_ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let is_accent = ('\u{300}'..='\u{36f}').contains(&c);
        if is_accent && plain.ends_with(|last: char| last.is_ascii_alphabetic()) {
            continue;
        }
        match c {
            'ß' => plain.push_str("ss"),
            'æ' => plain.push_str("ae"),
            'œ' => plain.push_str("oe"),
            'ø' => plain.push('o'),
            'ł' => plain.push('l'),
            'đ' => plain.push('d'),
            'ı' => plain.push('i'),
            _ => plain.push(base(c)),
        }
    }
    plain
}

/// The letter under an accent.
fn base(c: char) -> char {
    let mut first = None;
    decompose_canonical(c, |part| first = first.or(Some(part)));
    first.filter(char::is_ascii_alphabetic).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latin_letters_lose_accents() {
        for (text, plain) in [
            ("müller straße", "muller strasse"),
            ("cafe\u{301} élysée, où ça?", "cafe elysee, ou ca?"),
            ("smørrebrød łódź ếch", "smorrebrod lodz ech"),
            ("ёлка й が 한국", "ёлка й が 한국"),
        ] {
            assert_eq!(fold_to_ascii(text), plain);
        }
    }
}
