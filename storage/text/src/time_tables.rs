//! The words of times in English, German, French and Spanish: one table per language, of phrases and what they
//! mean. [`crate::time_words`] looks up the longest phrase at each word.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::civil::{Date, Time, Weekday};

use crate::calendar::{DayPart, Unit};

/// A word of a time, or another word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token {
    /// Days from today.
    Day(i64),
    DayPart(DayPart),
    Unit(Unit),
    /// Some of them, after "last" or "past".
    Units(Unit),
    Weekday(Weekday),
    Month(i8),
    Weekend,
    /// A number in digits.
    Number(i64),
    /// A day of a month: "3rd".
    Ordinal(i64),
    /// A number in words.
    Count(i64),
    /// A word for a larger number, or for a part: a number beside it is not a whole one.
    Multiple,
    /// Some: two to seven.
    Few,
    Year(i16),
    Date(Date),
    YearMonth(i16, i8),
    Clock(Time),
    /// The latest whole one.
    Last,
    /// The same, only after its noun.
    LastAfter,
    /// The one before that.
    BeforeLast,
    /// A time that ends now.
    Past,
    This,
    /// A time to come, or each: no past one.
    Next,
    /// After a count of units.
    Ago,
    /// Before a count of units; before other times it is [`Self::Before`].
    AgoFirst,
    Before,
    /// Before, but after its time.
    BeforeSuffix,
    After,
    Since,
    Until,
    Between,
    From,
    To,
    And,
    /// Announces a month or a year: "in March".
    In,
    /// Announces a day: "on Friday".
    On,
    /// Announces an hour.
    AtHour,
    /// An article, or what else does not count.
    Filler,
    /// The same between the parts of a date: "the 3rd of November".
    Joiner,
    /// The number before it is an hour.
    Hours,
    /// The number before it, up to 12, is an hour; this many hours later if it is below 12.
    HalfDay(i8),
    /// The number before it is a month.
    MonthSuffix,
    /// The number before it is a day.
    DaySuffix,
    Other,
}

use Token::*;

/// Words of the longest phrase.
pub const PHRASE_WORDS_MAX: usize = 5;

/// A language with spaces between words.
pub struct Language {
    /// Phrases, with one space between words.
    pub phrases: HashMap<String, Vec<Token>>,
    /// Frequent words, by which a query is of this language.
    pub frequent: &'static [&'static str],
    /// Whether "last" may follow its noun: "la semaine dernière".
    pub last_follows: bool,
}

/// Names in order, or phrases of one meaning, separated by commas.
pub type Names = &'static str;

struct Table {
    phrases: &'static [(&'static [Token], Names)],
    months: &'static [Names],
    weekdays: &'static [Names],
    /// From 1 on.
    numbers: Names,
    /// 20, 30, … 90; as many as are listed.
    tens: Names,
    /// The text between tens and ones, and whether the ones come first.
    joint: (&'static str, bool),
}

const ENGLISH: Table = Table {
    phrases: &[
        (&[Day(0)], "today"),
        (&[Day(-1)], "yesterday"),
        (&[Day(-2)], "day before yesterday"),
        (&[Day(0), DayPart(DayPart::Night)], "tonight"),
        (&[DayPart(DayPart::Morning)], "morning"),
        (&[DayPart(DayPart::Noon)], "noon"),
        (&[DayPart(DayPart::Afternoon)], "afternoon"),
        (&[DayPart(DayPart::Evening)], "evening"),
        (&[DayPart(DayPart::Night)], "night"),
        (&[Unit(Unit::Minute)], "minute,min"),
        (&[Units(Unit::Minute)], "minutes,mins"),
        (&[Unit(Unit::Hour)], "hour"),
        (&[Units(Unit::Hour)], "hours"),
        (&[Unit(Unit::Day)], "day"),
        (&[Units(Unit::Day)], "days"),
        (&[Unit(Unit::Week)], "week"),
        (&[Units(Unit::Week)], "weeks"),
        (&[Unit(Unit::Month)], "month"),
        (&[Units(Unit::Month)], "months"),
        (&[Unit(Unit::Year)], "year"),
        (&[Units(Unit::Year)], "years"),
        (&[Weekend], "weekend,weekends"),
        (&[BeforeLast, Unit(Unit::Week)], "week before last"),
        (&[BeforeLast, Unit(Unit::Month)], "month before last"),
        (&[BeforeLast, Unit(Unit::Year)], "year before last"),
        (&[Last], "last,previous"),
        (&[Past], "past"),
        (&[This], "this"),
        (&[Next], "next,coming,upcoming,following,every,each"),
        (&[Ago], "ago"),
        (&[Before], "before"),
        (&[After], "after"),
        (&[Since], "since"),
        (&[Until], "until,till"),
        (&[Between], "between"),
        (&[From], "from"),
        (&[To], "to,through"),
        (&[And], "and"),
        (&[In], "in,during,in early,in mid,in late,in the month of,in the year"),
        (&[On], "on,on the,over the,at the"),
        (&[Filler], "the,s,at,around,about"),
        (&[Joiner], "of"),
        (&[Few], "few,a few,couple,couple of,a couple of,several"),
        (&[Count(1)], "a,an"),
        (&[Multiple], "hundred,thousand,dozen,half"),
        (&[Hours], "clock,o clock"),
        (&[HalfDay(12)], "pm"),
        (&[HalfDay(0)], "am"),
    ],
    months: &[
        "january,february,march,april,may,june,july,august,september,october,november,december",
        "jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec",
        ",,,,,,,,sept",
    ],
    weekdays: &["monday,tuesday,wednesday,thursday,friday,saturday,sunday"],
    numbers: "one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,thirteen,fourteen,fifteen,sixteen,\
              seventeen,eighteen,nineteen",
    tens: "twenty,thirty,forty,fifty,sixty,seventy,eighty,ninety",
    joint: (" ", false),
};

const GERMAN: Table = Table {
    phrases: &[
        (&[Day(0)], "heute"),
        (&[Day(-1)], "gestern"),
        (&[Day(-2)], "vorgestern"),
        (&[DayPart(DayPart::Morning)], "morgen,vormittag,fruh"),
        (&[DayPart(DayPart::Noon)], "mittag"),
        (&[DayPart(DayPart::Afternoon)], "nachmittag"),
        (&[DayPart(DayPart::Evening)], "abend"),
        (&[DayPart(DayPart::Night)], "nacht"),
        (&[Unit(Unit::Minute)], "minute"),
        (&[Units(Unit::Minute)], "minuten"),
        (&[Unit(Unit::Hour)], "stunde"),
        (&[Units(Unit::Hour)], "stunden"),
        (&[Unit(Unit::Day)], "tag"),
        (&[Units(Unit::Day)], "tage,tagen"),
        (&[Unit(Unit::Week)], "woche"),
        (&[Units(Unit::Week)], "wochen"),
        (&[Unit(Unit::Month)], "monat,monats"),
        (&[Units(Unit::Month)], "monate,monaten"),
        (&[Unit(Unit::Year)], "jahr,jahres"),
        (&[Units(Unit::Year)], "jahre,jahren"),
        (&[Weekend], "wochenende,wochenenden"),
        (&[Last], "letzte,letzten,letzter,letztes,letztem,vorige,vorigen,voriger,voriges"),
        (&[Last], "vergangene,vergangenen,vergangener,vergangenes"),
        (&[BeforeLast], "vorletzte,vorletzten,vorletzter,vorletztes"),
        (&[This], "diese,diesen,dieser,dieses,diesem"),
        (
            &[Next],
            "nachste,nachsten,nachster,nachstes,nachstem,kommende,kommenden,kommender,kommendes",
        ),
        (&[Next], "jede,jeden,jeder,jedes,jedem"),
        (&[AgoFirst], "vor"),
        (&[After], "nach"),
        (&[Since], "seit"),
        (&[Until], "bis,bis zum"),
        (&[Between], "zwischen"),
        (&[From], "von,vom"),
        (&[And], "und"),
        (&[In], "im,in,wahrend,im monat,im jahr,im jahre"),
        (&[On], "am"),
        (&[Filler], "der,den,dem,des,das,die,um,gegen"),
        (&[Few], "paar,ein paar,einigen,einige,wenigen"),
        (&[Count(1)], "ein,eine,einem,einer,einen"),
        (&[Multiple], "hundert,tausend,dutzend,halben,halbe"),
        (&[Hours], "uhr"),
    ],
    months: &["januar,februar,marz,april,mai,juni,juli,august,september,oktober,november,dezember"],
    weekdays: &["montag,dienstag,mittwoch,donnerstag,freitag,samstag,sonntag", ",,,,,sonnabend"],
    numbers: "eins,zwei,drei,vier,funf,sechs,sieben,acht,neun,zehn,elf,zwolf,dreizehn,vierzehn,funfzehn,sechzehn,\
              siebzehn,achtzehn,neunzehn",
    tens: "zwanzig,dreissig,vierzig,funfzig,sechzig,siebzig,achtzig,neunzig",
    joint: ("und", true),
};

const FRENCH: Table = Table {
    phrases: &[
        (&[Day(0)], "aujourd hui"),
        (&[Day(-1)], "hier"),
        (&[Day(-2)], "avant hier"),
        (&[DayPart(DayPart::Morning)], "matin"),
        (&[DayPart(DayPart::Noon)], "midi"),
        (&[DayPart(DayPart::Afternoon)], "apres midi"),
        (&[DayPart(DayPart::Evening)], "soir,soiree"),
        (&[DayPart(DayPart::Night)], "nuit"),
        (&[Unit(Unit::Minute)], "minute"),
        (&[Units(Unit::Minute)], "minutes"),
        (&[Unit(Unit::Hour)], "heure"),
        (&[Units(Unit::Hour)], "heures"),
        (&[Unit(Unit::Day)], "jour"),
        (&[Units(Unit::Day)], "jours"),
        (&[Unit(Unit::Week)], "semaine"),
        (&[Units(Unit::Week)], "semaines"),
        (&[Unit(Unit::Month)], "mois"),
        (&[Unit(Unit::Year)], "an,annee"),
        (&[Units(Unit::Year)], "ans,annees"),
        (&[Weekend], "week end,weekend"),
        (&[Last], "dernier,derniere,derniers,dernieres"),
        (&[LastAfter], "passe,passee"),
        (&[This], "ce,cet,cette"),
        (&[Next], "prochain,prochaine,prochains,prochaines,chaque"),
        (&[AgoFirst], "il y a"),
        (&[Before], "avant"),
        (&[After], "apres"),
        (&[Since], "depuis"),
        (&[Until], "jusqu a,jusqu au,jusqu en"),
        (&[Between], "entre"),
        (&[From], "du"),
        (&[To], "au"),
        (&[And], "et"),
        (&[In], "en,pendant,durant,au mois de,au mois d,en l annee"),
        (&[On], "le"),
        (&[Filler], "la,les,l,d,de,a"),
        (&[Few], "quelques"),
        (&[Count(1)], "un,une"),
        (&[Multiple], "cent,cents,mille,douzaine,demi,demie"),
    ],
    months: &[
        "janvier,fevrier,mars,avril,mai,juin,juillet,aout,septembre,octobre,novembre,decembre",
    ],
    weekdays: &["lundi,mardi,mercredi,jeudi,vendredi,samedi,dimanche"],
    numbers: "un,deux,trois,quatre,cinq,six,sept,huit,neuf,dix,onze,douze,treize,quatorze,quinze,seize,dix sept,\
              dix huit,dix neuf",
    tens: "vingt,trente,quarante,cinquante,soixante",
    joint: (" ", false),
};

const SPANISH: Table = Table {
    phrases: &[
        (&[Day(0)], "hoy"),
        (&[Other], "hoy en dia"),
        (&[Day(-1)], "ayer"),
        (&[Day(-2)], "anteayer,antier"),
        (&[Day(-1), DayPart(DayPart::Night)], "anoche"),
        (&[DayPart(DayPart::Morning)], "manana,por la manana,de la manana"),
        (&[DayPart(DayPart::Noon)], "mediodia,al mediodia"),
        (&[DayPart(DayPart::Afternoon)], "tarde,por la tarde,de la tarde"),
        (&[DayPart(DayPart::Night)], "noche,por la noche,de la noche"),
        (&[Unit(Unit::Minute)], "minuto"),
        (&[Units(Unit::Minute)], "minutos"),
        (&[Unit(Unit::Hour)], "hora"),
        (&[Units(Unit::Hour)], "horas"),
        (&[Unit(Unit::Day)], "dia"),
        (&[Units(Unit::Day)], "dias"),
        (&[Unit(Unit::Week)], "semana"),
        (&[Units(Unit::Week)], "semanas"),
        (&[Unit(Unit::Month)], "mes"),
        (&[Units(Unit::Month)], "meses"),
        (&[Unit(Unit::Year)], "ano"),
        (&[Units(Unit::Year)], "anos"),
        (&[Weekend], "fin de semana,finde,findes"),
        (&[Last], "pasado,pasada,pasados,pasadas,ultimo,ultima,ultimos,ultimas"),
        (&[This], "este,esta"),
        (&[Next], "proximo,proxima,proximos,proximas,siguiente,que viene,cada,pasado manana"),
        (&[AgoFirst], "hace"),
        (&[Before], "antes del,antes de"),
        (&[After], "despues del,despues de"),
        (&[Since], "desde,desde el"),
        (&[Until], "hasta,hasta el"),
        (&[Between], "entre"),
        (&[From], "del"),
        (&[To], "al"),
        (&[And], "y"),
        (&[In], "en,durante,en el mes de,en el ano"),
        (&[On], "el"),
        (&[AtHour], "a la,a las"),
        (&[Filler], "la,los,las,de"),
        (&[Few], "unos,unas,algunos,algunas,pocos"),
        (&[Count(1)], "un,una"),
        (&[Multiple], "cien,ciento,mil,docena,medio,media"),
    ],
    months: &[
        "enero,febrero,marzo,abril,mayo,junio,julio,agosto,septiembre,octubre,noviembre,diciembre",
    ],
    weekdays: &["lunes,martes,miercoles,jueves,viernes,sabado,domingo"],
    numbers: "uno,dos,tres,cuatro,cinco,seis,siete,ocho,nueve,diez,once,doce,trece,catorce,quince,dieciseis,\
              diecisiete,dieciocho,diecinueve,veinte,veintiuno,veintidos,veintitres,veinticuatro,veinticinco,\
              veintiseis,veintisiete,veintiocho,veintinueve",
    tens: "veinte,treinta,cuarenta,cincuenta,sesenta,setenta,ochenta,noventa",
    joint: (" y ", false),
};

/// The tables, with frequent words; of equal languages the first one counts.
static LANGUAGES: LazyLock<[Language; 4]> = LazyLock::new(|| {
    [
        (ENGLISH, FREQUENT_ENGLISH, false),
        (FRENCH, FREQUENT_FRENCH, true),
        (GERMAN, FREQUENT_GERMAN, false),
        (SPANISH, FREQUENT_SPANISH, true),
    ]
    .map(|(table, frequent, last_follows)| Language {
        phrases: table.phrases(),
        frequent,
        last_follows,
    })
});
const FREQUENT_ENGLISH: &[&str] = &[
    "the", "of", "to", "is", "was", "are", "were", "what", "when", "who", "how", "did", "do",
    "does", "we", "i", "you", "my", "our", "for", "with", "on", "at", "it", "that", "have", "has",
    "had", "about", "from", "by", "be", "may", "which", "where", "why", "s",
];
const FREQUENT_GERMAN: &[&str] = &[
    "am", "vor", "seit", "bis", "der", "die", "das", "den", "dem", "des", "ich", "wir", "ist",
    "war", "was", "wer", "wie", "wo", "wann", "habe", "haben", "hat", "mit", "fur", "von", "zu",
    "und", "nicht", "ein", "eine", "im", "auf", "uber", "gibt", "hier", "wurde", "es",
];
const FREQUENT_FRENCH: &[&str] = &[
    "il", "y", "le", "la", "les", "l", "d", "du", "de", "des", "que", "quoi", "qu", "qui", "est",
    "c", "ce", "j", "je", "ai", "nous", "avons", "mes", "mon", "ma", "pour", "avec", "dans", "sur",
    "et", "un", "une", "quand", "ou", "au",
];
const FREQUENT_SPANISH: &[&str] = &[
    "el", "la", "los", "las", "de", "del", "que", "es", "en", "y", "un", "una", "por", "para",
    "con", "mi", "al", "se", "hice", "hicimos", "cuando", "donde", "quien", "como", "lo",
];

impl Table {
    fn phrases(&self) -> HashMap<String, Vec<Token>> {
        let mut phrases = HashMap::new();
        let ones: Vec<_> = self.numbers.split(',').collect();
        for (at, name) in ones.iter().enumerate() {
            phrases.insert((*name).to_owned(), vec![Count(at as i64 + 1)]);
        }
        for (at, ten) in self.tens.split(',').enumerate() {
            let value = (at as i64 + 2) * 10;
            phrases.insert(ten.to_owned(), vec![Count(value)]);
            for (one, name) in (1..).zip(ones.iter().take(9)) {
                let (joint, is_ones_first) = self.joint;
                // "einundzwanzig", "vingt et un".
                let name = if is_ones_first && one == 1 { "ein" } else { name };
                let (first, second) = if is_ones_first { (name, ten) } else { (ten, name) };
                phrases.insert(format!("{first}{joint}{second}"), vec![Count(value + one)]);
                if one == 1 {
                    phrases.insert(format!("{first} et {second}"), vec![Count(value + one)]);
                }
            }
        }
        let mut name_in_order = |lists: &[Names], token: &dyn Fn(usize) -> Option<Token>| {
            let named = lists.iter().flat_map(|list| list.split(',').enumerate());
            for (at, name) in named.filter(|(_, name)| !name.is_empty()) {
                phrases.extend(token(at).map(|token| (name.to_owned(), vec![token])));
            }
        };
        name_in_order(self.months, &|at| Some(Month(at as i8 + 1)));
        name_in_order(self.weekdays, &weekday);
        for (tokens, names) in self.phrases {
            phrases.extend(names.split(',').map(|name| (name.to_owned(), tokens.to_vec())));
        }
        phrases
    }
}

/// The weekday of this number, from Monday on.
pub fn weekday(at: usize) -> Option<Token> {
    Weekday::from_monday_zero_offset(at as i8).ok().map(Weekday)
}

impl Language {
    /// The language of a query with these words, in lower case and without accents. Words that few languages have
    /// say most.
    pub fn of(words: &[String]) -> &'static Self {
        let whole = words.join(" ");
        if let Some(language) = LANGUAGES.iter().find(|it| it.phrases.contains_key(&whole)) {
            return language;
        }
        let mut points = [0; 4];
        for word in words {
            let has = |language: &Self| {
                language.phrases.contains_key(word) || language.frequent.contains(&word.as_str())
            };
            let count = LANGUAGES.iter().filter(|language| has(language)).count();
            for (points, language) in points.iter_mut().zip(&*LANGUAGES) {
                let is_frequent = language.frequent.contains(&word.as_str());
                *points += if has(language) { 12 / count } else { 0 };
                *points += if is_frequent { 6 } else { 0 };
            }
        }
        let most = points.iter().copied().max();
        let first = points.iter().position(|points| Some(*points) == most);
        &LANGUAGES[first.unwrap_or(0)]
    }
}
