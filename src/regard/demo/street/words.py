"""The lexicon of the street corpus: all forms are listed, except where German has a rule without exceptions.

A verb or an adjective lists the nouns that it suits: by the noun itself ("street"), its kind ("places"), or a wider
class ("living", "lifeless", "any"). The tables hold the only objects of these classes, so identity is equality.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

Kind = Literal["person", "animal", "place", "thing"]
Gender = Literal["m", "f", "n"]
_KINDS = {"person": "people", "animal": "animals", "place": "places", "thing": "things"}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun in both languages; `oblique` is the accusative and dative singular where it differs (n-declension)."""

    kind: Kind
    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    oblique: str = ""
    pronoun: str = "it"

    @property
    def names(self) -> frozenset[str]:
        """The names that a verb or an adjective can list it by."""
        return frozenset({self.english, _KINDS[self.kind], "living" if self.is_living else "lifeless", "any"})

    @property
    def is_living(self) -> bool:
        """People and animals."""
        return self.kind in ("person", "animal")


@dataclass(frozen=True, eq=False)
class Verb:
    """A transitive verb: English base and past, German infinitive and Präteritum, and the nouns that it suits.

    With `repels`, reasons against other actions are reasons for this one: a steep path is avoided.
    """

    base: str
    past: str
    infinitive: str
    preterite: str
    subjects: str
    objects: str
    repels: bool = False

    @property
    def preterite_plural(self) -> str:
        """Weak verbs add -n to "-te", strong ones -en."""
        return self.preterite + ("n" if self.preterite.endswith("e") else "en")


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; `mood`: a reason to act ("invites"), not to act ("hinders"), or neither ("")."""

    english: str
    german: str
    fits: str
    mood: str = ""
    attributive: bool = False  # these stems do not change with the ending


@dataclass(frozen=True, eq=False)
class Saying:
    """A verb of reporting in the present, followed by a "that" clause."""

    singular: str
    plural: str
    german: str
    german_plural: str


NOUNS = (
    Noun("person", "man", "men", "Mann", "Männer", "m", pronoun="he"),
    Noun("person", "boy", "boys", "Junge", "Jungen", "m", "Jungen", "he"),
    Noun("person", "king", "kings", "König", "Könige", "m", pronoun="he"),
    Noun("person", "prince", "princes", "Prinz", "Prinzen", "m", "Prinzen", "he"),
    Noun("person", "farmer", "farmers", "Bauer", "Bauern", "m", "Bauern", "he"),
    Noun("person", "student", "students", "Student", "Studenten", "m", "Studenten", "he"),
    Noun("person", "wizard", "wizards", "Zauberer", "Zauberer", "m", pronoun="he"),
    Noun("person", "grandfather", "grandfathers", "Großvater", "Großväter", "m", pronoun="he"),
    Noun("person", "woman", "women", "Frau", "Frauen", "f", pronoun="she"),
    Noun("person", "queen", "queens", "Königin", "Königinnen", "f", pronoun="she"),
    Noun("person", "princess", "princesses", "Prinzessin", "Prinzessinnen", "f", pronoun="she"),
    Noun("person", "witch", "witches", "Hexe", "Hexen", "f", pronoun="she"),
    Noun("person", "aunt", "aunts", "Tante", "Tanten", "f", pronoun="she"),
    Noun("person", "grandmother", "grandmothers", "Großmutter", "Großmütter", "f", pronoun="she"),
    Noun("person", "girl", "girls", "Mädchen", "Mädchen", "n", pronoun="she"),
    Noun("person", "child", "children", "Kind", "Kinder", "n"),
    Noun("animal", "dog", "dogs", "Hund", "Hunde", "m"),
    Noun("animal", "bear", "bears", "Bär", "Bären", "m", "Bären"),
    Noun("animal", "bird", "birds", "Vogel", "Vögel", "m"),
    Noun("animal", "wolf", "wolves", "Wolf", "Wölfe", "m"),
    Noun("animal", "lion", "lions", "Löwe", "Löwen", "m", "Löwen"),
    Noun("animal", "fox", "foxes", "Fuchs", "Füchse", "m"),
    Noun("animal", "cat", "cats", "Katze", "Katzen", "f"),
    Noun("animal", "cow", "cows", "Kuh", "Kühe", "f"),
    Noun("animal", "mouse", "mice", "Maus", "Mäuse", "f"),
    Noun("animal", "goat", "goats", "Ziege", "Ziegen", "f"),
    Noun("animal", "goose", "geese", "Gans", "Gänse", "f"),
    Noun("animal", "snake", "snakes", "Schlange", "Schlangen", "f"),
    Noun("animal", "animal", "animals", "Tier", "Tiere", "n"),
    Noun("animal", "horse", "horses", "Pferd", "Pferde", "n"),
    Noun("animal", "pig", "pigs", "Schwein", "Schweine", "n"),
    Noun("animal", "camel", "camels", "Kamel", "Kamele", "n"),
    Noun("animal", "rabbit", "rabbits", "Kaninchen", "Kaninchen", "n"),
    Noun("animal", "crocodile", "crocodiles", "Krokodil", "Krokodile", "n"),
    Noun("place", "river", "rivers", "Fluss", "Flüsse", "m"),
    Noun("place", "forest", "forests", "Wald", "Wälder", "m"),
    Noun("place", "garden", "gardens", "Garten", "Gärten", "m"),
    Noun("place", "park", "parks", "Park", "Parks", "m"),
    Noun("place", "square", "squares", "Platz", "Plätze", "m"),
    Noun("place", "path", "paths", "Weg", "Wege", "m"),
    Noun("place", "street", "streets", "Straße", "Straßen", "f"),
    Noun("place", "bridge", "bridges", "Brücke", "Brücken", "f"),
    Noun("place", "meadow", "meadows", "Wiese", "Wiesen", "f"),
    Noun("place", "town", "towns", "Stadt", "Städte", "f"),
    Noun("place", "island", "islands", "Insel", "Inseln", "f"),
    Noun("place", "desert", "deserts", "Wüste", "Wüsten", "f"),
    Noun("place", "field", "fields", "Feld", "Felder", "n"),
    Noun("place", "village", "villages", "Dorf", "Dörfer", "n"),
    Noun("place", "valley", "valleys", "Tal", "Täler", "n"),
    Noun("place", "castle", "castles", "Schloss", "Schlösser", "n"),
    Noun("place", "house", "houses", "Haus", "Häuser", "n"),
    Noun("place", "room", "rooms", "Zimmer", "Zimmer", "n"),
    Noun("thing", "table", "tables", "Tisch", "Tische", "m"),
    Noun("thing", "chair", "chairs", "Stuhl", "Stühle", "m"),
    Noun("thing", "apple", "apples", "Apfel", "Äpfel", "m"),
    Noun("thing", "cake", "cakes", "Kuchen", "Kuchen", "m"),
    Noun("thing", "letter", "letters", "Brief", "Briefe", "m"),
    Noun("thing", "stone", "stones", "Stein", "Steine", "m"),
    Noun("thing", "lamp", "lamps", "Lampe", "Lampen", "f"),
    Noun("thing", "bottle", "bottles", "Flasche", "Flaschen", "f"),
    Noun("thing", "pear", "pears", "Birne", "Birnen", "f"),
    Noun("thing", "box", "boxes", "Kiste", "Kisten", "f"),
    Noun("thing", "bag", "bags", "Tasche", "Taschen", "f"),
    Noun("thing", "clock", "clocks", "Uhr", "Uhren", "f"),
    Noun("thing", "book", "books", "Buch", "Bücher", "n"),
    Noun("thing", "egg", "eggs", "Ei", "Eier", "n"),
    Noun("thing", "picture", "pictures", "Bild", "Bilder", "n"),
    Noun("thing", "bed", "beds", "Bett", "Betten", "n"),
    Noun("thing", "boat", "boats", "Boot", "Boote", "n"),
    Noun("thing", "window", "windows", "Fenster", "Fenster", "n"),
)

_STRONG = "people dog bear wolf lion cow goat animal horse pig camel"
_WATCHFUL = "people dog bear wolf lion goose snake animal crocodile"
_FOOD = "apple cake pear egg"
_LOADS = "table chair stone lamp bottle box bag clock book picture bed"
_SMALL = "apple cake letter stone lamp bottle pear box bag clock book egg picture"
_ENTERED = "forest garden park island bridge meadow field village castle house room"
_LEFT = f"{_ENTERED} town valley desert square street path"
_EXPLORED = "forest garden park town island desert village valley castle house room field"

VERBS = (
    Verb(
        "cross", "crossed", "überqueren", "überquerte", "living", "river square path street bridge meadow desert field"
    ),
    Verb("see", "saw", "sehen", "sah", "living", "any"),
    Verb("find", "found", "finden", "fand", "living", "any"),
    Verb("reach", "reached", "erreichen", "erreichte", "living", "places"),
    Verb("enter", "entered", "betreten", "betrat", "living", _ENTERED),
    Verb("leave", "left", "verlassen", "verließ", "living", _LEFT, True),
    Verb("avoid", "avoided", "meiden", "mied", "living", "places living", True),
    Verb("explore", "explored", "erkunden", "erkundete", "living", _EXPLORED),
    Verb("love", "loved", "lieben", "liebte", "living", "any"),
    Verb("hate", "hated", "hassen", "hasste", "living", "any", True),
    Verb("watch", "watched", "beobachten", "beobachtete", "living", "living river street bridge house"),
    Verb("discover", "discovered", "entdecken", "entdeckte", "living", "any"),
    Verb("guard", "guarded", "bewachen", "bewachte", _WATCHFUL, "things garden bridge field village castle house"),
    Verb("carry", "carried", "tragen", "trug", _STRONG, _LOADS),
    Verb("push", "pushed", "schieben", "schob", _STRONG, f"{_LOADS} boat"),
    Verb("touch", "touched", "berühren", "berührte", "living", "things animals"),
    Verb("eat", "ate", "essen", "aß", "people", _FOOD),
    Verb("eat", "ate", "fressen", "fraß", "animals", _FOOD),
    Verb("paint", "painted", "malen", "malte", "people", "any"),
    Verb("visit", "visited", "besuchen", "besuchte", "people", "people forest garden park town island village castle"),
    Verb("buy", "bought", "kaufen", "kaufte", "people", "things animals house castle"),
    Verb("sell", "sold", "verkaufen", "verkaufte", "people", "things animals house castle", True),
    Verb("open", "opened", "öffnen", "öffnete", "people", "letter bottle box bag book window"),
    Verb("close", "closed", "schließen", "schloss", "people", "bottle box bag book window", True),
    Verb("repair", "repaired", "reparieren", "reparierte", "people", "table chair lamp clock bed boat window bridge"),
    Verb("lose", "lost", "verlieren", "verlor", "people", _SMALL, True),
    Verb("describe", "described", "beschreiben", "beschrieb", "people", "any"),
    Verb("forget", "forgot", "vergessen", "vergaß", "people", "any", True),
    Verb("admire", "admired", "bewundern", "bewunderte", "people", "any"),
    Verb("read", "read", "lesen", "las", "people", "letter book"),
    Verb("frighten", "frightened", "erschrecken", "erschreckte", "lifeless", "living", True),
    Verb("surprise", "surprised", "überraschen", "überraschte", "lifeless", "living", True),
    Verb("disappoint", "disappointed", "enttäuschen", "enttäuschte", "lifeless", "living", True),
    Verb("stop", "stopped", "stoppen", "stoppte", "places", "living", True),
)

_EMPTY = "park square street bridge desert field town village castle house room bottle box bag"
_IDYLLIC = "river forest garden park square path meadow town island village valley"
_COLOURED_ANIMALS = "dog bear bird wolf cat cow mouse goat goose snake animal horse pig rabbit"
_COLOURED = f"{_COLOURED_ANIMALS} table chair lamp bottle box bag clock boat"

# None of these describes weather or light: in "it was too windy" the pronoun refers to no noun.
ADJECTIVES = (
    Adjective("tired", "müde", "living", "hinders"),
    Adjective("sick", "krank", "living", "hinders"),
    Adjective("weak", "schwach", "living", "hinders"),
    Adjective("lazy", "faul", "living", "hinders"),
    Adjective("afraid", "ängstlich", "living", "hinders"),
    Adjective("shy", "schüchtern", "living", "hinders"),
    Adjective("nervous", "nervös", "living", "hinders"),
    Adjective("sad", "traurig", "living", "hinders"),
    Adjective("careful", "vorsichtig", "living", "hinders"),
    Adjective("hungry", "hungrig", "living", "hinders invites", attributive=True),
    Adjective("thirsty", "durstig", "living", "hinders invites"),
    Adjective("angry", "wütend", "living", "hinders invites"),
    Adjective("curious", "neugierig", "living", "invites"),
    Adjective("brave", "mutig", "living", "invites"),
    Adjective("happy", "glücklich", "living", "invites"),
    Adjective("clever", "klug", "living", "invites"),
    Adjective("wide", "breit", "river path street bridge desert field valley", "hinders", attributive=True),
    Adjective("narrow", "schmal", "river path street bridge valley house room window bed", "hinders invites"),
    Adjective("deep", "tief", "river valley", "hinders"),
    Adjective("steep", "steil", "path street meadow valley", "hinders"),
    Adjective("crowded", "voll", "park square street bridge town village house room", "hinders"),
    Adjective("slippery", "glatt", "square path street bridge stone", "hinders"),
    Adjective("stony", "steinig", "garden path desert field valley", "hinders"),
    Adjective("sandy", "sandig", "path island desert", "hinders"),
    Adjective("swampy", "sumpfig", "forest path meadow island field valley", "hinders"),
    Adjective("hilly", "hügelig", "park meadow town island desert", "hinders"),
    Adjective("overgrown", "verwildert", "garden park meadow field", "hinders"),
    Adjective("remote", "abgelegen", "forest town island village valley castle house", "hinders"),
    Adjective("dense", "dicht", "forest", "hinders"),
    Adjective("full", "voll", "bottle box bag boat", "hinders"),
    Adjective("empty", "leer", _EMPTY, "invites"),
    Adjective("flat", "flach", "path street meadow island desert field", "invites"),
    Adjective("idyllic", "idyllisch", _IDYLLIC, "invites"),
    Adjective("spacious", "geräumig", "garden park square castle house room box bag boat", "invites"),
    Adjective("modern", "modern", "bridge town castle house room lamp clock", "hinders invites"),
    Adjective("heavy", "schwer", f"{_LOADS} boat", "hinders"),
    Adjective("light", "leicht", f"{_LOADS} boat", "invites"),
    Adjective("fragile", "zerbrechlich", "chair lamp bottle clock egg picture window", "hinders"),
    Adjective("wobbly", "wackelig", "table chair bed bridge", "hinders"),
    Adjective("rusty", "rostig", "lamp clock boat", "hinders"),
    Adjective("long", "lang", "letter book", "hinders"),
    Adjective("boring", "langweilig", "letter book picture", "hinders"),
    Adjective("exciting", "spannend", "letter book picture", "invites"),
    Adjective("sour", "sauer", "apple cake pear", "hinders"),
    Adjective("bitter", "bitter", _FOOD, "hinders"),
    Adjective("salty", "salzig", "cake egg", "hinders"),
    Adjective("sweet", "süß", "apple cake pear", "hinders invites"),
    Adjective("fresh", "frisch", _FOOD, "invites"),
    Adjective("expensive", "teuer", "things", "hinders"),
    Adjective("cheap", "billig", "things", "invites"),
    Adjective("big", "groß", "any", attributive=True),
    Adjective("small", "klein", "any", attributive=True),
    Adjective("old", "alt", "any", attributive=True),
    Adjective("beautiful", "schön", "any", attributive=True),
    Adjective("strange", "seltsam", "any", attributive=True),
    Adjective("young", "jung", "living", attributive=True),
    Adjective("new", "neu", f"{_LOADS} boat window letter park street bridge house room", attributive=True),
    Adjective("white", "weiß", _COLOURED, attributive=True),
    Adjective("black", "schwarz", _COLOURED, attributive=True),
    Adjective("brown", "braun", _COLOURED, attributive=True),
)

SAYINGS = (
    Saying("says", "say", "sagt", "sagen"),
    Saying("knows", "know", "weiß", "wissen"),
    Saying("believes", "believe", "glaubt", "glauben"),
    Saying("thinks", "think", "denkt", "denken"),
)

TIMES = {"yesterday": "gestern", "today": "heute", "tomorrow": "morgen"}
DEGREES = {"": "", "too": "zu", "very": "sehr", "so": "so", "not": "nicht"}
JOINTS = {"because": "weil", "although": "obwohl", "for": "denn"}
PREPOSITIONS = {"behind": "hinter", "beside": "neben", "in front of": "vor"}  # with the dative: location, not direction
MOTIONS = ("carry", "push")  # with these, "behind the house" could be a direction
PLACES_NEARBY = "forest garden park river street bridge field village castle house"


NOUN = {noun.english: noun for noun in NOUNS}
VERB = {verb.infinitive: verb for verb in VERBS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}


def suits(names: str, noun: Noun) -> bool:
    """Whether a list of names such as "living street" covers the noun."""
    return not noun.names.isdisjoint(names.split())


@cache
def nouns_of(names: str) -> tuple[Noun, ...]:
    """All nouns that the names cover, in the order of the table."""
    return tuple(noun for noun in NOUNS if suits(names, noun))
