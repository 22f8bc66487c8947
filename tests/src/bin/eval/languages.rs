//! Questions about people in languages other than English. Each fact is stated of each person, so that the name
//! alone does not answer, and few questions have the other words of their fact.

use crate::{Question, Set};

/// Facts and the questions about them. `{}` is the name of a person.
type Pairs = [(&'static str, &'static str); 12];

const CHINESE: Pairs = [
    ("{}三年前搬到了海边的一座小城", "{}现在住在什么地方？"),
    ("{}在市立医院值夜班", "{}做什么工作？"),
    ("{}对花生和虾过敏", "请{}吃饭要避开哪些食物？"),
    ("{}养了一只黑猫和两只鹦鹉", "{}家里有什么宠物？"),
    ("{}的女儿今年秋天上小学", "{}的孩子多大了？"),
    ("{}每个周末都去爬山", "{}有空的时候喜欢干什么？"),
    ("{}喝咖啡从不放糖", "给{}准备饮料要注意什么？"),
    ("{}正在自学弹钢琴", "{}最近在练习哪种乐器？"),
    ("{}上个月摔断了左腿", "{}受了什么伤？"),
    ("{}打算明年卖掉旧车换一辆电动车", "{}想买怎样的交通工具？"),
    ("{}更愿意用邮件联系，不喜欢打电话", "怎样跟{}沟通最合适？"),
    ("{}的生日在十二月的第一天", "什么时候该祝贺{}？"),
];
const CHINESE_NAMES: [&str; 10] =
    ["王芳", "李强", "张敏", "刘洋", "陈静", "杨帆", "赵磊", "黄丽", "周杰", "吴倩"];

const JAPANESE: Pairs = [
    ("{}さんは三年前に海辺の町へ引っ越した", "{}さんの今の住まいはどこ？"),
    ("{}さんは市立病院で夜勤をしている", "{}さんの職業は何ですか？"),
    ("{}さんはピーナッツとエビで湿疹が出る", "{}さんが食べられないものは？"),
    ("{}さんの家には黒猫とインコが二羽いる", "{}さんはどんなペットを飼っている？"),
    ("{}さんの娘は秋に小学校へ上がる", "{}さんの子どもは何歳くらい？"),
    ("{}さんは週末になると山に登る", "{}さんの趣味は？"),
    ("{}さんはコーヒーに砂糖を入れない", "{}さんに飲み物を出すときの注意点は？"),
    ("{}さんは独学でピアノを弾いている", "{}さんが練習している楽器は？"),
    ("{}さんは先月左足を骨折した", "{}さんはどこをけがした？"),
    ("{}さんは来年古い車を売って電気自動車にする", "{}さんが買いたい乗り物は？"),
    ("{}さんは電話よりメールを好む", "{}さんに連絡するよい方法は？"),
    ("{}さんの誕生日は十二月の最初の日だ", "{}さんをいつ祝えばいい？"),
];
const JAPANESE_NAMES: [&str; 10] =
    ["佐藤", "鈴木", "高橋", "田中", "伊藤", "渡辺", "山本", "中村", "小林", "加藤"];

const RUSSIAN: Pairs = [
    ("{} три года назад перебралась в городок у моря", "Где сейчас живёт {}?"),
    ("{} дежурит по ночам в городской больнице", "Кем работает {}?"),
    ("{} не переносит арахис и креветки", "Какие продукты вредны для {}?"),
    ("{} держит чёрную кошку и двух попугаев", "Какие домашние животные есть у {}?"),
    ("{} осенью поведёт дочь в первый класс", "Сколько лет ребёнку {}?"),
    ("{} каждые выходные ходит в горы", "Чем увлекается {} в свободное время?"),
    ("{} пьёт кофе без сахара", "Что учесть, если угощать {} напитком?"),
    ("{} сама учится играть на пианино", "На каком инструменте занимается {}?"),
    ("{} в прошлом месяце сломала левую ногу", "Какую травму получила {}?"),
    ("{} хочет через год продать старую машину и взять электромобиль", "Какой транспорт купит {}?"),
    ("{} предпочитает письма, а звонков не любит", "Как лучше связаться с {}?"),
    ("{} родилась первого декабря", "Когда поздравлять {} с праздником?"),
];
const RUSSIAN_NAMES: [&str; 10] =
    ["Мария", "Ольга", "Анна", "Ирина", "Елена", "Наталья", "Светлана", "Татьяна", "Юлия", "Дарья"];

const SPANISH: Pairs = [
    ("{} se mudó hace tres años a un pueblo junto al mar", "¿Dónde vive {} ahora?"),
    ("{} hace turnos de noche en el hospital municipal", "¿A qué se dedica {}?"),
    ("{} no tolera los cacahuetes ni las gambas", "¿Qué alimentos le sientan mal a {}?"),
    ("{} tiene una gata negra y dos loros", "¿Qué mascotas hay en casa de {}?"),
    ("La hija de {} empieza primaria este otoño", "¿Cuántos años tiene la niña de {}?"),
    ("{} sube a la montaña cada fin de semana", "¿Qué aficiones tiene {}?"),
    ("{} toma el café sin azúcar", "¿Cómo preparo una bebida para {}?"),
    ("{} aprende a tocar el piano por su cuenta", "¿Qué instrumento practica {}?"),
    ("{} se rompió la pierna izquierda el mes pasado", "¿Qué lesión sufrió {}?"),
    ("{} venderá su viejo coche para comprar uno eléctrico", "¿Qué vehículo quiere {}?"),
    ("{} prefiere el correo y evita las llamadas", "¿Cuál es la mejor forma de contactar con {}?"),
    ("{} nació el primero de diciembre", "¿Cuándo hay que felicitar a {}?"),
];
const SPANISH_NAMES: [&str; 10] =
    ["Lucía", "Carmen", "Pablo", "Diego", "Elena", "Javier", "Marta", "Sergio", "Paula", "Andrés"];

pub(crate) fn set() -> Set {
    let mut set = Set::default();
    for (kind, pairs, names) in [
        ("facts in Chinese", CHINESE, CHINESE_NAMES),
        ("facts in Japanese", JAPANESE, JAPANESE_NAMES),
        ("facts in Russian", RUSSIAN, RUSSIAN_NAMES),
        ("facts in Spanish", SPANISH, SPANISH_NAMES),
    ] {
        for (at, name) in names.iter().enumerate() {
            for (fact, question) in pairs {
                set.questions.push(Question {
                    kind,
                    is_test: at % 2 == 0,
                    text: question.replace("{}", name),
                    namespace: kind.into(),
                    answers: vec![set.memories.len()],
                });
                set.memories.push((kind.into(), fact.replace("{}", name)));
            }
        }
    }
    set
}
