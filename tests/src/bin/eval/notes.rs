//! Questions about short notes of an agent, made of patterns: people, prices, identifiers, and notes
//! in German and Chinese. Many differ in one name or number only.

use tests::engine::random;

use crate::{Question, Set};

/// Notes of each pattern.
const NOTES: usize = 300;

const FIRST: [&str; 12] = [
    "Anna", "Jonas", "Maria", "Peter", "Leila", "Tomas", "Ingrid", "Omar", "Sofia", "Viktor",
    "Hannah", "Ravi",
];
const LAST: [&str; 25] = [
    "Keller",
    "Moreau",
    "Lindqvist",
    "Okafor",
    "Tanaka",
    "Brandt",
    "Silva",
    "Novak",
    "Haddad",
    "Petrov",
    "Marchetti",
    "Jensen",
    "Kowalski",
    "Fischer",
    "Dubois",
    "Costa",
    "Nakamura",
    "Andersen",
    "Rossi",
    "Weber",
    "Molina",
    "Sato",
    "Bergman",
    "Horvat",
    "Singh",
];
const JOBS: [&str; 10] = [
    "nurse",
    "pilot",
    "carpenter",
    "tax adviser",
    "violinist",
    "chemist",
    "gardener",
    "editor",
    "surveyor",
    "baker",
];
const CITIES: [&str; 10] =
    ["Lisbon", "Oslo", "Vienna", "Nairobi", "Quito", "Osaka", "Dublin", "Riga", "Perth", "Tunis"];
const GOODS: [&str; 10] = [
    "standing desk",
    "espresso machine",
    "road bike",
    "tent",
    "microphone",
    "winter coat",
    "telescope",
    "keyboard",
    "sewing machine",
    "kayak",
];
const PARTS: [&str; 10] = [
    "parse_config",
    "flush_queue",
    "open_session",
    "merge_rows",
    "load_tokens",
    "renew_lease",
    "rotate_keys",
    "count_pages",
    "build_index",
    "send_report",
];
const CHINESE_NAMES: [&str; 10] =
    ["王伟", "李娜", "张敏", "刘洋", "陈静", "杨帆", "赵磊", "黄丽", "周杰", "吴迪"];
const CHINESE_CITIES: [&str; 10] =
    ["上海", "广州", "成都", "杭州", "西安", "南京", "武汉", "青岛", "大连", "昆明"];

/// A note and questions about it, each with its kind.
type Note = (String, Vec<(&'static str, String)>);

pub(crate) fn set() -> Set {
    let patterns = [person, price, commit, phone, german, chinese];
    let mut set = Set::default();
    // The notes of all patterns take turns, so that neighbours have nothing in common.
    for number in 0..NOTES {
        for pattern in patterns {
            let (text, questions) = pattern(number);
            let answers = vec![set.memories.len()];
            set.memories.push(("default".into(), text));
            set.questions.extend(questions.into_iter().map(|(kind, text)| Question {
                kind,
                is_test: number % 2 == 0,
                text,
                namespace: "default".into(),
                answers: answers.clone(),
            }));
        }
    }
    set
}

fn pick<const N: usize>(of: [&'static str; N], number: usize, salt: u64) -> &'static str {
    of[random(number as u64 + salt * 1_000_003) as usize % N]
}

/// A pair of names that no other number has.
fn name(number: usize) -> (&'static str, &'static str) {
    (FIRST[number % FIRST.len()], LAST[number / FIRST.len() % LAST.len()])
}

fn person(number: usize) -> Note {
    let ((first, last), job, city) = (name(number), pick(JOBS, number, 1), pick(CITIES, number, 2));
    let (start, end) = last.split_at(last.len() / 2);
    let typo = format!("{start}{}", &end[1..]);
    let questions = vec![
        ("people", format!("What does {first} {last} do for a living?")),
        ("people, a letter missing", format!("Where does {first} {typo} live?")),
    ];
    (format!("{first} {last} lives in {city} and works as a {job}."), questions)
}

fn price(number: usize) -> Note {
    let (goods, euros) = (pick(GOODS, number, 3), 40 + number * 7);
    let city = pick(CITIES, number, 4);
    let text = format!("The {goods} in the shop in {city} costs {euros} euros.");
    (text, vec![("numbers", format!("What can I buy for {euros} euros?"))])
}

fn commit(number: usize) -> Note {
    let hash = format!("{:016x}{:016x}", random(number as u64), random(number as u64 + 9_999));
    let part = pick(PARTS, number, 5);
    let (ticket, last) = (1_000 + number * 13, name(number).1);
    let text = format!("Commit {} by {last} changes {part} for ticket HR-{ticket}.", &hash[..12]);
    let spoken = part.replace('_', " ");
    let questions = vec![
        ("identifiers", format!("which function did {} touch", &hash[..12])),
        ("identifiers, shortened", format!("what is commit {}", &hash[..7])),
        ("identifiers, in parts", format!("{spoken} ticket {ticket}")),
    ];
    (text, questions)
}

fn phone(number: usize) -> Note {
    let (first, last) = name(number);
    let digits = 10_000_000 + random(number as u64 + 77) % 90_000_000;
    let (left, right) = (digits / 10_000, digits % 10_000);
    let question = format!("Whose number is +49-30-{digits}?");
    (
        format!("{first} {last} can be called at +49 30 {left:04} {right:04}."),
        vec![("phone numbers, other spaces", question)],
    )
}

fn german(number: usize) -> Note {
    let ((first, last), room) = (name(number), 100 + number);
    let day = ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag"][number % 5];
    let text = format!("Die Besprechung mit {first} {last} ist am {day} in Raum {room}.");
    (text, vec![("German", format!("In welchem Raum treffe ich {first} {last}?"))])
}

fn chinese(number: usize) -> Note {
    let (who, city) = (CHINESE_NAMES[number % 10], CHINESE_CITIES[number / 10 % 10]);
    let street = 10 + number;
    let text = format!("{who}住在{city}，门牌号是{street}号。");
    (text, vec![("Chinese", format!("谁住在{city}{street}号？"))])
}
