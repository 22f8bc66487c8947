//! What a guard looks for: the kinds of secrets, numbers and addresses with their patterns, and instructions for a
//! model. Numbers count only with the right check digits.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use storage::model::guard::Detection;

/// A kind of secret: its name, its pattern, and what else must hold of a match. Where the pattern has a group,
/// only that is the secret.
pub(super) struct Kind {
    pub(super) detection: Detection,
    pub(super) name: &'static str,
    pattern: Regex,
    is_valid: fn(&str) -> bool,
}

/// The parts of a kind, with the text of its pattern.
type Source<'a> = (Detection, &'static str, &'a str, fn(&str) -> bool);

/// Names before a secret.
const SECRET_NAMES: &str = r"passwords?|passwd|pwd|passphrase|passwort|kennwort|secret(?:[_-]?key)?|client[_-]?secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|token";

pub(super) struct Kinds {
    /// All patterns at once: most texts have none.
    pub(super) any: RegexSet,
    pub(super) kinds: Vec<Kind>,
    /// The number of the kind that is about instructions.
    pub(super) instructions: usize,
}

pub(super) static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    use Detection::{Email, Number, Secret};
    let any: fn(&str) -> bool = |_| true;
    let named = format!(
        r#"(?i)(?:(?-u:\b)|_|pg)(?:{SECRET_NAMES})(?:_[a-z0-9]+)*(?:\s+(?:for|of|to|von|für)\s+\S+)?["']?\s*(?:=>|:=|=|:|(?-u:\b)(?:is|ist)(?-u:\b))\s*["']?([^\s"',;]{{8,}})"#
    );
    // One run of digits, or the groups of cards with one separator. Dates and addresses of networks have others.
    let groups = [" ", "-", r"\u{a0}"].map(|by| {
        format!("[0-9]{{4}}(?:(?:{by}[0-9]{{4}}){{3}}(?:{by}[0-9]{{1,3}})?|{by}[0-9]{{6}}{by}[0-9]{{4,5}})")
    });
    let card = format!(r"(?-u:\b)(?:[0-9]{{13,19}}|{})(?-u:\b)", groups.join("|"));
    let patterns: [Source<'_>; 27] = [
        (
            Secret,
            "private key",
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            any,
        ),
        (
            Secret,
            "token",
            r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
            any,
        ),
        (Secret, "key", r"(?-u:\b)(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)", any),
        (Secret, "key", r"(?-u:\b)AccountKey=([A-Za-z0-9+/=]{88})", any),
        (
            Secret,
            "key",
            r"(?-u:\b)AKC[A-Za-z0-9]{10,}|(?-u:\b)AP[0-9A-F][A-Za-z0-9]{8,}(?-u:\b)",
            is_mixed,
        ),
        (
            Secret,
            "token",
            r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
            any,
        ),
        (
            Secret,
            "token",
            r"(?-u:\b)(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[A-Za-z0-9_-]{20,}",
            any,
        ),
        (Secret, "token", r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}", any),
        (Secret, "token", r"(?-u:\b)https://hooks\.slack\.com/services/([A-Za-z0-9/_-]{20,})", any),
        (
            Secret,
            "token",
            r"(?-u:\b)[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
            any,
        ),
        (Secret, "key", r"(?-u:\b)(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}", any),
        (Secret, "key", r"(?-u:\b)(?:sk|op|gsk|xai)[-_](?:[a-z]+-)*[A-Za-z0-9_-]{20,}", has_digit),
        (Secret, "key", r"(?-u:\b)AIza[0-9A-Za-z_-]{35}(?-u:\b)", any),
        (Secret, "key", r"(?-u:\b)[0-9a-f]{32}-us[0-9]{1,2}(?-u:\b)", any),
        (Secret, "key", r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", any),
        (Secret, "key", r"(?-u:\b)sq0(?:csp|atp)-[0-9A-Za-z_-]{22,}", any),
        (Secret, "key", r"(?-u:\b)(?:AC|SK)[0-9a-f]{32}(?-u:\b)", any),
        (Secret, "token", r"(?-u:\b)[0-9]{8,10}:[0-9A-Za-z_-]{35}(?-u:\b)", any),
        (
            Secret,
            "token",
            r"(?-u:\b)(?:whsec_[A-Za-z0-9+/=]{16,}|shpat_[0-9a-f]{32}|hvs\.[A-Za-z0-9_-]{24,}|ya29\.[A-Za-z0-9_-]{20,}|dop_v1_[0-9a-f]{64}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{30,})",
            any,
        ),
        (Secret, "token", r"_authToken=([^\s]{8,})", any),
        (
            Secret,
            "token",
            r"(?i)(?-u:\b)(?:authorization:\s*(?:bearer|basic|token)|bearer)\s+([A-Za-z0-9._~+/=-]{16,})",
            has_digit,
        ),
        (Secret, "password", r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:(\S{1,256})@", is_no_port),
        (Secret, "password", &named, is_random),
        (Number, "card number", &card, is_card),
        (
            Number,
            "account number",
            r"(?-u:\b)(?i)[a-z]{2}[0-9]{2}(?:[ \u{a0}-]?[a-z0-9]){11,34}(?-u:\b)",
            is_iban,
        ),
        (
            Email,
            "e-mail address",
            r"(?-u:\b)[A-Za-z0-9][A-Za-z0-9._%+-]*@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?-u:\b)",
            is_address,
        ),
        // What a model is to do instead, in the languages of most agents; and letters that only models see.
        (
            Detection::Instructions,
            "instruction",
            concat!(
                r"(?i)(?-u:\b)(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|everything\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+|these\s+)?(?:previous|prior|above|earlier|preceding|former|system)\s+(?:\w+\s+)?(?:instruction|prompt|rule|direction|guideline|order)s?(?-u:\b)",
                r"|(?-u:\b)(?:ignore|disregard|forget)\s+(?:all\s+)?your\s+(?:\w+\s+)?(?:instruction|prompt|rule|guideline)s?(?-u:\b)",
                r"|(?-u:\b)(?:ignore|disregard|forget)\s+(?:all\s+)?(?:the\s+)?(?:instruction|prompt|rule)s?\s+(?:above|before)(?-u:\b)",
                r"|(?-u:\b)(?:reveal|print|show|output|repeat|leak)\s+(?:me\s+)?(?:your|the)\s+(?:full\s+|hidden\s+|initial\s+)?(?:system\s+prompt|hidden\s+instructions|initial\s+instructions)",
                r"|(?-u:\b)you\s+are\s+(?:now|no\s+longer)\s+(?:bound|free|subject|unrestricted|jailbroken|in\s+\w+\s+mode)(?-u:\b)",
                r"|(?-u:\b)(?:do\s+not|don['’]t|never)\s+(?:tell|inform|mention|reveal)\s+(?:this|it|that|anything)\s+(?:to\s+)?(?:the|your)\s+(?:user|human|operator)s?(?-u:\b)",
                r"|(?-u:\b)(?:send|post|upload|forward|exfiltrate)(?-u:\b).{0,60}(?-u:\b)(?:api\s+keys?|credentials?|passwords?|secrets?|tokens?)(?-u:\b).{0,40}(?:https?://|@)",
                r"|<\|?(?:system|im_start|assistant)\|?>|\[/?INST\]|<<SYS>>",
                r"|(?-u:\b)(?:ignoriere|ignorieren|vergiss|vergessen|missachte|missachten)\s+(?:sie\s+)?(?:alle\s+)?(?:bisherigen|vorherigen|vorigen|obigen|früheren)\s+(?:anweisungen|regeln|befehle)",
                r"|(?-u:\b)(?:ignore[zr]?|oublie[zr]?)\s+(?:toutes\s+)?(?:les\s+)?(?:instructions|consignes|règles)\s+(?:précédentes|antérieures|ci-dessus)",
                r"|(?-u:\b)(?:ignora|olvida)\s+(?:todas\s+)?(?:las\s+)?(?:instrucciones|reglas|órdenes)\s+(?:anteriores|previas)",
                r"|忽略.{0,6}(?:之前|以上|先前|上述|前面).{0,6}(?:指令|指示|提示|规则)",
                r"|[\x{E0020}-\x{E007F}]",
            ),
            any,
        ),
    ];
    let kind = |(detection, name, pattern, is_valid): &Source<'_>| {
        Some(Kind {
            detection: *detection,
            name,
            pattern: Regex::new(pattern).ok()?,
            is_valid: *is_valid,
        })
    };
    let kinds: Vec<_> = patterns.iter().filter_map(kind).collect();
    let instructions = kinds.iter().position(|kind| kind.detection == Detection::Instructions);
    let any = RegexSet::new(patterns.map(|(_, _, pattern, _)| pattern)).unwrap_or_default();
    Kinds { any, kinds, instructions: instructions.unwrap_or_default() }
});

/// The whole name of a value that is a secret.
pub(super) static SECRET_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("(?i)(?:{SECRET_NAMES})$")).ok());

impl Kind {
    pub(super) fn matches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut at = 0;
        std::iter::from_fn(move || {
            while let Some(captures) = self.pattern.captures_at(text, at) {
                let whole = captures.get(1).or_else(|| captures.get(0))?;
                if let Some(length) = self.valid_length(whole.as_str()) {
                    at = whole.start() + length;
                    return Some(whole.start()..at);
                }
                at = whole.end();
            }
            None
        })
    }

    /// How much of a match is valid from its beginning: all, or a number that ends before a word.
    fn valid_length(&self, text: &str) -> Option<usize> {
        if self.detection != Detection::Number {
            return (self.is_valid)(text).then_some(text.len());
        }
        let is_end = |end: &usize| {
            text.get(*end..).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        (1..=text.len()).rev().filter(is_end).find(|end| (self.is_valid)(&text[..*end]))
    }
}

/// Whether a token has a digit: names of packages have none.
fn has_digit(token: &str) -> bool {
    token.contains(|char: char| char.is_ascii_digit())
}

/// Whether what stands before the `@` of an address is a password, and not a port with a path.
fn is_no_port(text: &str) -> bool {
    !text.trim_start_matches(|char: char| char.is_ascii_digit()).starts_with('/')
}

/// Whether a value after "password:" looks like one: it has digits beside letters, or a sign that words and code
/// have not.
pub(super) fn is_random(value: &str) -> bool {
    const OF_CODE: [char; 9] = ['(', ')', '$', '<', '>', '{', '}', '[', ']'];
    let has_letter = value.contains(char::is_alphabetic);
    let has_sign =
        value.trim_end_matches(['!', '?', '.']).contains(['!', '@', '#', '%', '^', '&', '*', '?']);
    let is_code = value.contains(OF_CODE) || value.contains("::") || value.contains("removed");
    let is_number = value.chars().all(|char| char.is_ascii_digit());
    !is_code && (is_number || has_letter && (has_digit(value) || has_sign))
}

/// Whether a token has what random ones have: both cases, and digits.
fn is_mixed(token: &str) -> bool {
    let has = |is: fn(&char) -> bool| token.chars().filter(is).count() > 1;
    has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase) && has(char::is_ascii_digit)
}

/// Whether what looks like an address of e-mail is none of a picture, `logo@2x.png`, nor of a repository.
fn is_address(text: &str) -> bool {
    let (_, ending) = text.rsplit_once('.').unwrap_or_default();
    !["png", "jpg", "jpeg", "gif", "svg", "webp"].contains(&ending) && !text.starts_with("git@")
}

/// Luhn's check of a card number with the first digits and the length of an issuer.
fn is_card(number: &str) -> bool {
    let digits: Vec<_> = number.chars().filter_map(|char| char.to_digit(10)).collect();
    let doubled = |(at, digit): (usize, &u32)| match at % 2 {
        0 => *digit,
        _ => digit * 2 - if *digit > 4 { 9 } else { 0 },
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    let is_varied = digits.iter().any(|digit| *digit != digits[0]);
    let lengths: &[usize] = match digits[..] {
        [4, ..] => &[13, 16, 19],
        [3, 4 | 7, ..] => &[15],
        [3, ..] => &[14, 16, 17, 18, 19],
        [2 | 5 | 6, ..] => &[16, 17, 18, 19],
        _ => &[],
    };
    lengths.contains(&digits.len()) && is_varied && sum.is_multiple_of(10)
}

/// Lengths of account numbers by the registry of ISO 13616.
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 \
    ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IS26 IT27 JO30 KW30 KZ20 LB28 LI21 LT20 LU20 LV21 \
    MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SE24 SI19 SK24 SM27 TN24 TR26 UA29 \
    VA22 VG24 XK20";

/// The check of account numbers by ISO 13616: the length of the country, and the number modulo 97 is 1.
fn is_iban(number: &str) -> bool {
    let compact: String = number.chars().filter(char::is_ascii_alphanumeric).collect();
    let compact = compact.to_ascii_uppercase();
    let country = compact.get(..2).unwrap_or_default();
    let length =
        IBAN_LENGTHS.split(' ').find_map(|entry| entry.strip_prefix(country)?.parse().ok());
    if length != Some(compact.len()) {
        return false;
    }
    let turned = compact[4..].chars().chain(compact[..4].chars());
    let rest = turned.fold(0_u32, |rest, char| {
        let value = char.to_digit(36).unwrap_or_default();
        (rest * if value > 9 { 100 } else { 10 } + value) % 97
    });
    rest == 1
}
