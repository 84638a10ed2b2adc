"""Recall of edited copies and of other spellings by language, for each version of schemes.

    python -m benchmarks.own.languages [--texts 200]

Texts are drawn from word lists of our own, in the script's own spacing: 120 words in sentences of
6 to 14. A copy has one word in 25 replaced, left out or doubled, or its last letter changed. In
other copies one Arabic word in 10 is stretched by tatweel, or the edited text has another spelling,
which a fold makes equal. A local file with the default bands holds all
texts; a copy counts as found if `similar` at a threshold returns its original.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import esdedup
from esdedup.text.fold import Fold

THRESHOLD = 0.5
EDITED = 25
"""One word of so many is edited."""
STRETCHED = 10


@dataclass(frozen=True)
class Language:
    """How texts of a language are made.

    words: its vocabulary. between: what stands between two words. end: of a sentence.
    """

    words: tuple[str, ...]
    between: str = " "
    end: str = ". "


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LANGUAGES = {
    "English": Language(
        _words(
            "the river town council bridge market garden winter summer morning school teacher water"
            " mountain road village fish bread letter window paper stone music dance story horse"
            " cloud rain wind fire house door table chair lamp book friend child mother father work"
            " and with over under before after slowly quickly often never built found lost carried"
        )
    ),
    "Thai": Language(
        _words(
            "แม่น้ำ เมือง ตลาด สวน ฤดูหนาว ตอนเช้า โรงเรียน ครู น้ำ ภูเขา ถนน หมู่บ้าน ปลา ขนมปัง จดหมาย"
            " หน้าต่าง กระดาษ หิน ดนตรี เรื่อง ม้า เมฆ ฝน ลม ไฟ บ้าน ประตู โต๊ะ เก้าอี้ หนังสือ เพื่อน เด็ก"
            " แม่ พ่อ งาน และ กับ ก่อน หลัง ช้า เร็ว สร้าง พบ หาย ใหม่ เก่า"
        ),
        "",
        " ",
    ),
    "Javanese": Language(
        _words(
            "ꦏꦭꦶ ꦏꦸꦛ ꦥꦱꦂ ꦏꦼꦧꦺꦴꦤ꧀ ꦲꦸꦢꦤ꧀ ꦲꦺꦱꦸꦏ꧀ ꦱꦼꦏꦺꦴꦭꦃ ꦒꦸꦫꦸ ꦧꦚꦸ ꦒꦸꦤꦸꦁ ꦢꦭꦤ꧀ ꦢꦺꦱ ꦲꦶꦮꦏ꧀ ꦫꦺꦴꦠꦶ ꦭꦪꦁ ꦏꦼꦂꦠꦱ꧀"
            " ꦮꦠꦸ ꦱꦺꦴꦫꦺ ꦕꦫꦶꦠ ꦗꦫꦤ꧀ ꦩꦺꦒ ꦲꦔꦶꦤ꧀ ꦒꦼꦤꦶ ꦲꦺꦴꦩꦃ ꦭꦮꦁ ꦩꦺꦗ ꦏꦸꦂꦱꦶ ꦧꦸꦏꦸ ꦏꦚ꧀ꦕ ꦧꦺꦴꦕꦃ ꦲꦶꦧꦸ ꦧꦥꦏ꧀ ꦒꦮꦺ"
            " ꦭꦤ꧀ ꦏꦫꦺꦴ ꦱꦣꦸꦫꦸꦁ ꦫꦶꦏꦠ꧀ ꦲꦚꦂ ꦭꦮꦱ꧀ ꦥꦸꦠꦶꦃ"
        ),
        "",
        "꧉",
    ),
    "Arabic": Language(
        _words(
            "النهر المدينة المجلس الجسر السوق الحديقة الشتاء الصيف الصباح المدرسة المعلم الماء"
            " الجبل الطريق القرية السمك الخبز الرسالة النافذة الورق الحجر الموسيقى القصة الحصان"
            " السحاب المطر الريح النار البيت الباب الطاولة الكرسي الكتاب الصديق الطفل الأم الأب"
            " العمل مع فوق تحت قبل بعد ببطء بسرعة أبدا جديد قديم وجد ضاع إلى"
        )
    ),
    "Hindi": Language(
        _words(
            "नदी शहर परिषद पुल बाज़ार बगीचा सर्दी गर्मी सुबह विद्यालय अध्यापक पानी पहाड़ सड़क गाँव मछली"
            " रोटी चिट्ठी खिड़की काग़ज़ पत्थर संगीत कहानी घोड़ा बादल बारिश हवा आग घर दरवाज़ा मेज़ कुर्सी"
            " किताब मित्र बच्चा माँ पिता काम और साथ ऊपर नीचे पहले बाद धीरे जल्दी नया पुराना हिन्दी सम्बन्ध"
        ),
        end="। ",
    ),
    "Chinese": Language(
        _words(
            "河流 城市 议会 大桥 市场 花园 冬天 夏天 早晨 学校 老师 清水 高山 道路 村庄 鱼 面包"
            " 书信 窗户 纸张 石头 音乐 故事 马 云 雨 风 火 房屋 门 桌子 椅子 书 朋友 孩子 母亲 父亲"
            " 工作 和 上面 下面 以前 以后 慢慢 很快 新 旧 找到 失去"
        ),
        "",
        "。",
    ),
    "Japanese": Language(
        _words(
            "川 町 議会 橋 市場 庭 冬 夏 朝 学校 先生 水 山 道 村 魚 パン 手紙 窓 紙 石 音楽 物語"
            " 馬 雲 雨 風 火 家 ドア テーブル いす 本 友だち 子ども 母 父 仕事 と 上で 下で 前に"
            " あとで ゆっくり 早く 新しい 古い 見つけた なくした"
        ),
        "",
        "。",
    ),
    "French": Language(
        _words(
            "la rivière ville conseil été hiver marché école élève maître forêt fenêtre pâte gâteau"
            " lettre pierre musique légende théâtre père mère frère bébé déjà après près très où à"
            " français garçon leçon noël maïs naïf hôtel côte âme île vieux neuf trouvé perdu"
        )
    ),
    "Russian": Language(
        _words(
            "река город совет мост рынок сад зима лето утро школа учитель вода гора дорога деревня"
            " рыба хлеб письмо окно бумага камень музыка ёлка ещё всё её новое моё твоё пошёл нашёл"
            " чёрный зелёный лёд мёд тёплый дом дверь стол книга друг мать отец работа"
        )
    ),
    "Turkish": Language(
        _words(
            "ırmak şehir meclis köprü pazar bahçe kış yaz sabah okul öğretmen su dağ yol köy balık"
            " ekmek mektup pencere kağıt taş müzik hikaye at bulut yağmur rüzgar ateş ev kapı masa"
            " sandalye kitap arkadaş çocuk anne baba iş ile altında üstünde ılık sıcak yeni eski"
        )
    ),
    "Hebrew": Language(
        _words(
            "נהר עיר מועצה גשר שוק גן חורף קיץ בוקר מורה מים הר דרך כפר דג לחם מכתב חלון נייר אבן"
            " מוזיקה סיפור סוס ענן גשם רוח אש בית דלת שולחן כיסא ספר חבר ילד אם אב עבודה חדש ישן"
        )
    ),
}
EDITS = ("English", "Thai", "Javanese", "Arabic", "Hindi", "Chinese", "Japanese")


def _vowelled(text: str) -> str:
    """Put a vowel sign behind letters of Arabic or Hebrew."""
    signs = "\u064e\u0650\u064f" if "\u0627" in text else "\u05b8\u05b4\u05bc"
    return "".join(
        letter + signs[place % 3] if letter.isalpha() else letter
        for place, letter in enumerate(text)
    )


def _without_accents(text: str) -> str:
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text))


def _without_yo(text: str) -> str:
    return text.replace("ё", "е")


def _other_nasals(text: str) -> str:
    """Write an anusvara for each nasal, and no nukta."""
    text = text.replace("न्द", "ंद").replace("म्ब", "ंब").replace("न्ध", "ंध").replace("ँ", "ं")
    return unicodedata.normalize("NFD", text).replace("\u093c", "")


def _without_hamza(text: str) -> str:
    return text.translate(str.maketrans("أإآى", "اااي"))


def _upper_in_turkish(text: str) -> str:
    return text.replace("i", "İ").replace("ı", "I").upper()


def _hyphenated(text: str) -> str:
    """Break each fifth longer word at the end of a line."""
    words = text.split(" ")
    for place, word in enumerate(words):
        if place % 5 == 0 and len(word) > 5:
            words[place] = f"{word[:3]}-\n{word[3:]}"
    return " ".join(words)


def _escaped(text: str) -> str:
    return text.replace("the", "the &amp;").replace("and", "&lt;and&gt;")


def _unescaped(text: str) -> str:
    return text.replace("the", "the &").replace("and", "<and>")


def _persian(text: str) -> str:
    """Write the letters of a Persian keyboard."""
    return text.translate(str.maketrans("يك", "یک"))


@dataclass(frozen=True)
class Spelling:
    """Two spellings of a text, which a fold makes equal."""

    name: str
    language: str
    fold: Fold
    one: Callable[[str], str]
    other: Callable[[str], str]


SPELLINGS = (
    Spelling("without accents", "French", "marks", str, _without_accents),
    Spelling("without ё", "Russian", "marks", str, _without_yo),
    Spelling("with vowel signs", "Arabic", "marks", _vowelled, str),
    Spelling("with vowel signs", "Hebrew", "marks", _vowelled, str),
    Spelling("other nasal signs, no nukta", "Hindi", "marks", str, _other_nasals),
    Spelling("Persian yeh and kaf", "Arabic", "arabic", _persian, str),
    Spelling("no hamza on alef", "Arabic", "arabic", str, _without_hamza),
    Spelling("in capitals", "Turkish", "turkish", _upper_in_turkish, str),
    Spelling("hyphens at line ends", "English", "hyphens", _hyphenated, str),
    Spelling("escaped for HTML", "English", "entities", _escaped, _unescaped),
)


def _text(language: Language, rng: random.Random) -> list[list[str]]:
    """Return the sentences of a text."""
    sentences, words = list[list[str]](), 0
    while words < 120:
        sentences.append(rng.choices(language.words, k=rng.randint(6, 14)))
        words += len(sentences[-1])
    return sentences


def _joined(sentences: list[list[str]], language: Language) -> str:
    return "".join(language.between.join(words) + language.end for words in sentences)


def _edited(sentences: list[list[str]], language: Language, rng: random.Random) -> list[list[str]]:
    def changed(word: str) -> Iterator[str]:
        if rng.random() >= 1 / EDITED:
            yield word
            return
        way = rng.randrange(4)
        if way == 0:
            yield rng.choice(language.words)
        elif way == 1:
            yield from (word, word)
        elif way == 2:
            yield word[:-1] + rng.choice(rng.choice(language.words))

    return [[new for word in words for new in changed(word)] for words in sentences]


def _stretched(sentences: list[list[str]]) -> list[list[str]]:
    return [
        [
            f"{word[:-1]}ـــ{word[-1]}" if place % STRETCHED == 0 else word
            for place, word in enumerate(words)
        ]
        for words in sentences
    ]


@dataclass(frozen=True)
class Recall:
    """What `similar` finds of copies.

    language: of the texts.
    way: how copies differ.
    scheme: version 3, version 4, or version 4 with a fold.
    similarity: mean Jaccard similarity of a copy and its original.
    near: share of copies at the threshold or more.
    found: share of copies whose original is found at the threshold.
    """

    language: str
    way: str
    scheme: str
    similarity: float
    near: float
    found: float


def _recall(
    texts: list[str], copies: list[str], scheme: esdedup.Scheme, folder: Path
) -> tuple[float, float, float]:
    """Return the mean similarity, the share at the threshold, and the share found."""
    similarities = [
        esdedup.similarity(one, other, scheme=scheme)
        for one, other in zip(texts, copies, strict=True)
    ]
    file = folder / f"{len([*folder.iterdir()])}.db"
    with esdedup.open(file, scheme=scheme) as index:
        index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
        found = 0
        for row, copy in enumerate(copies):
            result = index.similar(copy, threshold=THRESHOLD, k=len(texts))
            found += str(row) in {match.id for match in result.matches}
    many = len(texts)
    return sum(similarities) / many, sum(s >= THRESHOLD for s in similarities) / many, found / many


def measure(texts: int, folder: Path) -> list[Recall]:
    """Return the recall of edited copies, then of other spellings."""
    rows = []
    plain = {"version 3": esdedup.Scheme(version=3), "version 4": esdedup.Scheme()}
    for name in EDITS:
        language, rng = LANGUAGES[name], random.Random(name)
        originals = [_text(language, rng) for _ in range(texts)]
        ways = {"edited": [_edited(sentences, language, rng) for sentences in originals]}
        if name == "Arabic":
            ways["stretched"] = [_stretched(sentences) for sentences in originals]
        for way, copies in ways.items():
            both = ([_joined(each, language) for each in side] for side in (originals, copies))
            left, right = both
            for scheme_name, scheme in plain.items():
                figures = _recall(left, right, scheme, folder)
                rows.append(Recall(name, way, scheme_name, *figures))
    for spelling in SPELLINGS:
        language, rng = LANGUAGES[spelling.language], random.Random(spelling.language)
        drawn = [_text(language, rng) for _ in range(texts)]
        made = [_joined(sentences, language) for sentences in drawn]
        edited = [_joined(_edited(sentences, language, rng), language) for sentences in drawn]
        fold = esdedup.Normalisation(fold=(spelling.fold,))
        folded = {
            "version 4": plain["version 4"],
            f"fold {spelling.fold}": replace(plain["version 4"], normalisation=fold),
        }
        left, right = [*map(spelling.one, made)], [*map(spelling.other, edited)]
        for scheme_name, scheme in folded.items():
            figures = _recall(left, right, scheme, folder)
            rows.append(Recall(spelling.language, spelling.name, scheme_name, *figures))
    return rows


def main() -> None:
    """Print a row of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in measure(options.texts, Path(folder)):
            sys.stdout.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
