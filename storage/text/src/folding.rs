//! Texts that differ only in how they are written, as one text: composed and decomposed letters (UAX #15),
//! letters of other widths, cases, accents.
//!
//! Names are in NFC, so that two that look alike are one. Words are in NFKC with full case folding. Letters of Latin, Greek,
//! Hebrew and Arabic lose their marks, since people leave them out; in other scripts a mark makes another
//! letter (й, が), except for ё, which is written as е.

use std::borrow::Cow;

use unicode_normalization::char::{decompose_canonical, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};

/// A text in NFC.
pub fn nfc(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        true => text.into(),
        false => text.nfc().collect::<String>().into(),
    }
}

/// A text in NFKC: fullwidth digits are digits, and halfwidth kana are kana.
pub fn nfkc(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        true => text.into(),
        false => text.nfkc().collect::<String>().into(),
    }
}

/// A text with all cases of a letter as one: `ß` is "ss", and `ς` is `σ`.
pub fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Not that of a text: its last sigma is another one.
    let folded = text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    folded.flat_map(char::to_lowercase).collect()
}

/// A name as it is compared where case does not matter.
pub fn fold_name(text: &str) -> String {
    // The case of a letter may have other marks.
    nfc(&fold_case(&nfc(text))).into_owned()
}

/// A word of a text as an index has it: folded, and without marks where they do not make another letter.
pub fn fold_word(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    // Whether the letter before loses its marks: it is Latin, Greek, Hebrew or Arabic.
    let mut is_bare = false;
    let mut is_decomposed = false;
    for c in fold_case(&nfkc(word)).chars() {
        decompose_canonical(c, |part| match part {
            // The forms of emoji.
            '\u{fe0e}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' => {}
            mark if is_combining_mark(mark) => {
                let is_dropped = is_bare || (mark == '\u{308}' && plain.ends_with('е'));
                if !is_dropped {
                    plain.push(mark);
                    is_decomposed = true;
                }
            }
            letter => {
                is_bare = matches!(u32::from(letter),
                    0x41..=0x24F | 0x370..=0x3FF | 0x590..=0x6FF | 0x750..=0x77F | 0x1E00..=0x1FFF);
                match letter {
                    'æ' => plain.push_str("ae"),
                    'œ' => plain.push_str("oe"),
                    'ø' => plain.push('o'),
                    'ł' => plain.push('l'),
                    'đ' => plain.push('d'),
                    'ı' => plain.push('i'),
                    // Stretches an Arabic word.
                    '\u{640}' => {}
                    letter => plain.push(letter),
                }
                // Syllables of Korean.
                is_decomposed |= matches!(letter, '\u{1100}'..='\u{11ff}');
            }
        });
    }
    if is_decomposed { plain.nfc().collect() } else { plain }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_are_written_alike_are_one() {
        for (text, plain) in [
            ("Müller Straße STRASSE ẞ", "muller strasse strasse ss"),
            ("cafe\u{301} élysée, où ça?", "cafe elysee, ou ca?"),
            ("smørrebrød łódź ếch İstanbul", "smorrebrod lodz ech istanbul"),
            ("Ёлка елка", "елка елка"),
            ("й и\u{306} Й", "й й й"),
            ("が か\u{3099} ｶﾞ", "が が ガ"),
            ("한국 \u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}", "한국 한국"),
            ("Άνθρωπος ΑΝΘΡΩΠΟΣ", "ανθρωποσ ανθρωποσ"),
            ("שָׁלוֹם مُحَمَّد مـحـمـد", "שלום محمد محمد"),
            ("１２３ Ａｂｃ ﬁne", "123 abc fine"),
            ("हिन्दी ไม้", "हिन्दी ไม้"),
            ("👍🏽 ❤️", "👍 ❤"),
        ] {
            assert_eq!(fold_word(text), plain);
        }
    }

    #[test]
    fn names_keep_their_marks() {
        assert_eq!(nfc("Mu\u{308}ller"), "Müller");
        assert_eq!(
            (fold_name("MÜLLER"), fold_name("Mu\u{308}ller")),
            ("müller".into(), "müller".into())
        );
        assert_eq!(fold_name("Größe 10²"), "grösse 10²");
        assert_eq!(nfc("가ё"), "가ё");
    }

    proptest! {
        #[test]
        fn equal_texts_have_equal_folds(text in "([a-zäéßçΑ-ώа-яёא-ת가-힣か-ゖｱ-ﾝ０-９]|\\PC){0,12}") {
            let forms = [text.nfc().collect::<String>(), text.nfd().collect()];
            for fold in [fold_word, fold_name, |text: &str| nfc(text).into_owned()] {
                prop_assert_eq!(fold(&forms[0]), fold(&forms[1]));
            }
            // Folding once is enough.
            prop_assert_eq!(fold_word(&fold_word(&text)), fold_word(&text));
            prop_assert_eq!(fold_name(&fold_name(&text)), fold_name(&text));
        }
    }
}
