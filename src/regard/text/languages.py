"""The languages of a model: given explicitly, or found in the names of its text files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.text.corpus import Corpus

# ISO 639-1, and the codes of ISO 639-3 for which the usual collections have parallel text. A file suffix that is not
# listed is not a language: in ISO 639-3 even "src", "tgt" and "txt" are.
_TABLE = """
aa Afar, ab Abkhazian, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese,
av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bi Bislama,
bm Bambara, bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro,
co Corsican, cr Cree, cs Czech, cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha,
ee Ewe, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian,
ff Fulah, fi Finnish, fj Fijian, fo Faroese, fr French, fy Frisian, ga Irish, gd Gaelic,
gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, hr Croatian,
ht Haitian, hu Hungarian, hy Armenian, ia Interlingua, id Indonesian, ig Igbo, ii Yi, io Ido,
is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese, ka Georgian, ki Kikuyu,
kk Kazakh, kl Greenlandic, km Khmer, kn Kannada, ko Korean, kr Kanuri, ks Kashmiri, ku Kurdish,
kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala,
lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese, mi Māori,
mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru,
nb Bokmål, nd Ndebele, ne Nepali, nl Dutch, nn Nynorsk, no Norwegian, nv Navajo, ny Chichewa,
oc Occitan, oj Ojibwe, om Oromo, or Odia, os Ossetian, pa Punjabi, pl Polish, ps Pashto,
pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda,
sa Sanskrit, sc Sardinian, sd Sindhi, se Sami, sg Sango, si Sinhala, sk Slovak, sl Slovenian,
sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st Sotho, su Sundanese,
sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen,
tl Tagalog, tn Tswana, to Tonga, tr Turkish, ts Tsonga, tt Tatar, ty Tahitian, ug Uyghur,
uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük, wa Walloon, wo Wolof,
xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu, ast Asturian, bar Bavarian,
bho Bhojpuri, ceb Cebuano, ckb Sorani, cmn Mandarin, dsb Lower Sorbian, fil Filipino, fur Friulian,
gsw Alemannic, haw Hawaiian, hmn Hmong, hsb Upper Sorbian, ilo Ilocano, jbo Lojban, kab Kabyle,
lij Ligurian, lmo Lombard, mai Maithili, nds Low German, pms Piedmontese, sah Yakut, scn Sicilian,
sco Scots, szl Silesian, tok Toki Pona, tpi Tok Pisin, vec Venetian, yue Cantonese, zza Zazaki,
deu German, eng English, fra French, ita Italian, jpn Japanese, kor Korean, nld Dutch, pol Polish,
por Portuguese, rus Russian, spa Spanish, swe Swedish, tur Turkish, ukr Ukrainian, vie Vietnamese,
zho Chinese
"""
NAMES = dict(entry.split(" ", 1) for entry in re.split(r",\s", _TABLE.strip()))
PATTERN = r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}"  # common BCP 47 tags: de, pt-BR, zh-Hans

_CODE = re.compile(PATTERN)
_FORMAT_SUFFIXES = {"gz", "zst", "zstd", "txt", "tsv"}  # may follow the language in a file name
_MAX_TARGETS = 500  # per model; the model may come from an untrusted source


@dataclass(frozen=True)
class Languages:
    """The source and target languages of a model, as far as they are known."""

    source: str | None = None
    targets: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every language once, the source first."""
        return tuple(dict.fromkeys(code for code in (self.source, *self.targets) if code is not None))

    def to_facts(self) -> dict[str, Any]:
        """The value of `languages` in the facts in a model."""
        return {"source": self.source, "targets": list(self.targets)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Languages:
        """From the facts in a model, which may come from an untrusted source; invalid codes are left out."""
        stored = facts.get("languages")
        if not isinstance(stored, dict):
            return cls()
        source, targets = stored.get("source"), stored.get("targets")
        targets = targets[:_MAX_TARGETS] if isinstance(targets, list) else []
        unique = dict.fromkeys(code for code in targets if is_language_code(code))
        return cls(source if is_language_code(source) else None, tuple(unique))


def is_language_code(text: Any) -> bool:
    """Whether it has the form of a language code: `de`, `pt-BR`, `zh-Hans`."""
    return isinstance(text, str) and _CODE.fullmatch(text) is not None


def language_name(code: str) -> str:
    """The English name, with the region in parentheses, as `Portuguese (BR)`; the code itself if it is unknown."""
    primary, *subtags = re.split("[-_]", code)
    if primary not in NAMES:
        return code
    return f"{NAMES[primary]} ({'-'.join(subtags)})" if subtags else NAMES[primary]


def find_languages(corpora: Iterable[Corpus], source: str | None = None, target: str | None = None) -> Languages:
    """The languages of a training run: as given, else from the file names if these agree.

    If the corpora have tags, the tags are the target languages, because users select the target by its tag.
    """
    corpora = list(corpora)
    pairs = [corpus_languages(corpus) for corpus in corpora]
    tags = tuple(dict.fromkeys(corpus.tag for corpus in corpora if corpus.tag is not None))
    target = target or _common(pair[1] for pair in pairs)
    return Languages(source or _common(pair[0] for pair in pairs), tags or ((target,) if target else ()))


def corpus_languages(corpus: Corpus) -> tuple[str | None, str | None]:
    """Source and target of one corpus, from names such as `train.en` + `train.de.gz` or `corpus.en-de.tsv`."""
    if corpus.tsv is not None:
        return _split_pair(_language_suffix(corpus.tsv))
    assert corpus.source is not None and corpus.target is not None
    source, target = (_known_code(_language_suffix(path)) for path in (corpus.source, corpus.target))
    return source, corpus.tag or target


def _language_suffix(path: Path) -> str:
    """The last part of a file name that is not a file format."""
    parts = path.name.split(".")
    while len(parts) > 1 and parts[-1].lower() in _FORMAT_SUFFIXES:
        parts.pop()
    return parts[-1]


def _known_code(suffix: str) -> str | None:
    return suffix if is_language_code(suffix) and re.split("[-_]", suffix)[0] in NAMES else None


def _split_pair(suffix: str) -> tuple[str | None, str | None]:
    """`en-de`, `pt-BR-en`: split where both sides are languages."""
    for position in (match.start() for match in re.finditer("-", suffix)):
        source, target = _known_code(suffix[:position]), _known_code(suffix[position + 1 :])
        if source and target:
            return source, target
    return None, None


def _common(codes: Iterable[str | None]) -> str | None:
    """The code, if all are the same."""
    unique = set(codes)
    return unique.pop() if len(unique) == 1 else None
