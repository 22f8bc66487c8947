//! How many tokens of a language model a text has at most, without the vocabulary of the model.
//!
//! The text is divided into runs as tokenizers divide it, and each run counts by its script. The weights hold
//! for the vocabularies cl100k and o200k of OpenAI: the tests have their counts. Other models have similar
//! ones. English prose counts for about 1.4 times its tokens.

use std::iter::Peekable;
use std::str::Chars;

/// Characters that one token has at most, so that a reader of memories knows when to end.
pub(super) const CHARS_PER_TOKEN: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A letter of the Latin script.
    Letter,
    Digit,
    Sign,
    Space,
    /// A character of another script.
    Other,
}

/// A bound of the tokens of a text.
pub(crate) fn tokens_max(text: &str) -> usize {
    let mut chars = text.chars().peekable();
    let joins = |next| !matches!(kind(next), Kind::Digit | Kind::Space);
    let mut sum = 0.0;
    while let Some(first) = chars.next() {
        sum += match kind(first) {
            Kind::Letter => word(first, &mut chars),
            Kind::Digit => run(&mut chars, Kind::Digit, 0.5),
            Kind::Sign => run(&mut chars, Kind::Sign, 0.5),
            // A space before a word is a part of it.
            Kind::Space if first == ' ' && chars.peek().is_some_and(|next| joins(*next)) => 0.0,
            Kind::Space => run(&mut chars, Kind::Space, 0.25),
            Kind::Other => weight(first),
        };
    }
    sum.ceil() as usize
}

/// A run that has begun: one token, or more by its length.
fn run(chars: &mut Peekable<Chars>, of: Kind, each: f64) -> f64 {
    let mut length = 1.0;
    while chars.next_if(|next| kind(*next) == of).is_some() {
        length += 1.0;
    }
    f64::max(1.0, length * each)
}

/// A word that has begun. It ends where a capital follows a small letter. Capitals and words with accents are
/// rarer, and have more tokens; so have those that are parts of a key or an id.
fn word(first: char, chars: &mut Peekable<Chars>) -> f64 {
    let (mut length, mut accents, mut capitals, mut last) = (0.0, 0.0, 0.0, first);
    let mut next = Some(first);
    while let Some(letter) = next {
        length += 1.0;
        accents += if letter.is_ascii() { 0.0 } else { 1.1 };
        capitals += if length > 1.0 && letter.is_uppercase() { 1.0 } else { 0.0 };
        last = letter;
        let ends = |next: char| letter.is_lowercase() && next.is_uppercase();
        next = chars.next_if(|next| kind(*next) == Kind::Letter && !ends(*next));
    }
    let is_rare = accents + capitals > 0.0;
    let begun = f64::max(1.0, length * if is_rare { 0.45 } else { 0.3 });
    // `HTMLElement` is less common than `ELEMENT`.
    let mixed = if last.is_lowercase() { capitals } else { 0.0 };
    let goes_on = |next: &char| matches!(kind(*next), Kind::Letter | Kind::Digit);
    let joined = if chars.peek().is_some_and(goes_on) { 0.7 } else { 0.0 };
    begun + accents + mixed + joined
}

fn kind(char: char) -> Kind {
    match char {
        'a'..='z' | 'A'..='Z' => Kind::Letter,
        '0'..='9' => Kind::Digit,
        _ if char.is_whitespace() => Kind::Space,
        _ if char.is_ascii() => Kind::Sign,
        '\u{c0}'..='\u{24f}' | '\u{300}'..='\u{36f}' | '\u{1e00}'..='\u{1eff}' => Kind::Letter,
        _ => Kind::Other,
    }
}

/// Tokens of a character that is neither Latin nor ASCII.
fn weight(char: char) -> f64 {
    match char {
        // Greek, Cyrillic, Hebrew, Arabic.
        '\u{370}'..='\u{3ff}' => 1.1,
        '\u{400}'..='\u{52f}' => 0.6,
        '\u{590}'..='\u{5ff}' => 1.3,
        '\u{600}'..='\u{6ff}' => 1.0,
        // Devanagari and Thai, then the other scripts of India.
        '\u{900}'..='\u{97f}' | '\u{e00}'..='\u{e7f}' => 1.2,
        '\u{980}'..='\u{dff}' => 1.6,
        // Chinese, Japanese and Korean, with their signs.
        '\u{3000}'..='\u{30ff}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff00}'..='\u{ffef}' => 1.3,
        // A token has one byte at least.
        _ => char.len_utf8() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, the first article of the Universal Declaration of Human Rights among them, and their tokens: the
    /// larger number of cl100k and o200k, as tiktoken-rs 0.12.1 counts.
    const COUNTED: &[(&str, usize, &str)] = &[
        (
            "English",
            33,
            "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
        ),
        (
            "German",
            44,
            "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.",
        ),
        (
            "French",
            50,
            "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
        ),
        (
            "Spanish",
            44,
            "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
        ),
        (
            "Polish",
            64,
            "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
        ),
        (
            "Vietnamese",
            83,
            "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình anh em.",
        ),
        (
            "Turkish",
            60,
            "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
        ),
        (
            "Russian",
            74,
            "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
        ),
        (
            "Greek",
            172,
            "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.",
        ),
        (
            "Arabic",
            88,
            "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا بروح الإخاء.",
        ),
        (
            "Hebrew",
            129,
            "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה.",
        ),
        (
            "Hindi",
            180,
            "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
        ),
        (
            "Tamil",
            137,
            "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள்.",
        ),
        (
            "Thai",
            135,
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
        ),
        (
            "Georgian",
            144,
            "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
        ),
        ("Amharic", 104, "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።"),
        (
            "Chinese",
            50,
            "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
        ),
        (
            "Japanese",
            93,
            "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
        ),
        (
            "Korean",
            85,
            "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
        ),
        ("Emoji", 40, "Great 🎉🎉 we shipped it 🚀 thanks 👩‍💻👨‍👩‍👧 see you 👋🏽"),
        (
            "Code",
            34,
            "fn main() { let total: u64 = items.iter().map(|item| item.price * item.count).sum(); println!(\"{total:>10}\"); }",
        ),
        (
            "Line",
            75,
            "{\"id\":\"019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01\",\"memory_type\":\"preference\",\"heat\":87,\"namespace\":\"default\",\"agent\":\"admin\",\"label\":\"The customer prefers invoices in German, sent by mail before the 5th of each month.\"}",
        ),
        (
            "Numbers",
            46,
            "2026-03-05T14:30:00Z 3.14159265 1234567890 0xdeadbeef 192.168.17.254 +49 30 1234567",
        ),
        (
            "Url",
            22,
            "https://example.com/search?q=memory+service&page=2&utm_source=mail#results_table_17",
        ),
        (
            "Path",
            27,
            "/var/lib/hearth/node-1/state/000123.sst C:\\Users\\Public\\Documents\\plan_v2.docx",
        ),
        ("Base64", 40, "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9dQw4w9WgXcQkQ7xZ"),
        ("Caps", 19, "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG AND RUNS AWAY"),
    ];

    #[test]
    fn bound_holds_in_all_scripts() {
        for (name, counted, text) in COUNTED {
            let bound = tokens_max(text);
            assert!(bound >= *counted, "{name}: {bound}, counted {counted}");
            assert!(bound * 10 <= counted * 17, "{name}: {bound}, counted {counted}");
        }
    }

    #[test]
    fn token_has_few_characters() {
        for text in ["", " ", "a", "a b c", "word", &"word ".repeat(99), &" ".repeat(99)] {
            assert!(text.len() <= CHARS_PER_TOKEN * tokens_max(text).max(1), "{text:?}");
        }
    }
}
