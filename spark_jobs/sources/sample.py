"""A made-up stream of tweets, for trying the product without data of one's own.

Hashtags follow a Zipf law (exponent 1.05) over a few thousand tags in eight languages; about half of the
tweets carry none, some carry several, and one tag in six is written in another case than the rest. The same
arguments give the same file, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

CHUNK: Final = 20_000
ZIPF_EXPONENT: Final = 1.05
Indices = npt.NDArray[np.int64]
_TAGS_PER_TWEET: Final = (0.52, 0.28, 0.12, 0.05, 0.03)

_OPENINGS: Final = {
    "en": "good morning|just saw|can't believe|today we enjoyed|finally|breaking:|thinking about|so proud of|"
    "no words for|watching|everyone talks about|please share:|new post on|back from|ready for|live now:",
    "de": "guten Morgen,|endlich wieder|heute geht es um|wer kennt|gerade gesehen:|nie wieder",
    "fr": "bonjour à tous,|enfin|on parle de|quel plaisir,|tout à l'heure,|à voir:",
    "es": "hoy hablamos de|por fin|qué bonito|buenos días,|no me lo creo:",
    "pt": "bom dia,|hoje tem|que saudade de|não acredito:",
    "ja": "今日は|やっと|おはよう、|さっき見た",
    "ru": "доброе утро,|сегодня|наконец-то|смотрите,",
    "ar": "صباح الخير،|اليوم|أخيراً",
}
_MIDDLES: Final = {
    "en": "the harbour at sunrise|a long queue at the station|our little garden|rain all day|the second half|"
    "three hours of traffic|the new bakery round the corner|an old friend|this view|our volunteers|"
    "the night train|coffee and a good book|a power cut in the north|the river after the storm|"
    "tickets for tonight|the whole street|two lost dogs|a quiet Sunday|the last bus",
    "de": "das Wetter an der Küste|ein voller Bahnsteig|der Markt am Samstag|die zweite Halbzeit|"
    "ein guter Kaffee",
    "fr": "le marché du dimanche|la pluie sur le port|le dernier métro|un bon livre|la deuxième mi-temps",
    "es": "la lluvia de ayer|el mercado del barrio|un café con vistas|el último tren|la playa en otoño",
    "pt": "a praia vazia|o trânsito da manhã|um café na esquina|o jogo de ontem",
    "ja": "駅前のパン屋|海と空|朝の電車|雨のち晴れ|新しい本",
    "ru": "утренний туман|новый мост|последний поезд|первый снег",
    "ar": "البحر والسماء|قهوة الصباح|مباراة الأمس",
}
_SHARES: Final = {
    "en": 0.5, "es": 0.12, "ja": 0.1, "pt": 0.08, "de": 0.06, "fr": 0.06, "ru": 0.04, "ar": 0.04,
}  # fmt: skip
_CLOSINGS: Final = "|!|...| 😀| 🌊|, again| :)| ❤️| http://link| @user| via @user|?!| 🚆"
_WORDS: Final = {
    "en": "sunrise|weather|football|coffee|travel|music|storm|election|garden|market|train|health|winter|"
    "books|science|photo|festival|flood|traffic|startup|cinema|running|history|recipe|space|school|harbour",
    "de": "Wetter|Fußball|Frühling|Zug|Küche|Straße|Münster|Köln|Gärten|Übung|Bücher|Grüße|Hochwasser|Wahl",
    "fr": "météo|été|forêt|café|élection|théâtre|lumière|Noël|musée|grève|plage|rentrée|goûter|fête",
    "es": "fútbol|mañana|corazón|elección|música|otoño|niños|playa|camión|España|lluvia|canción|árbol|año",
    "pt": "saudade|praia|eleição|coração|feijoada|verão|trânsito|música|São_Paulo|inverno",
    "ja": "天気|写真|電車|桜|音楽|旅行|朝ごはん|サッカー|コーヒー|選挙|猫|映画",
    "ru": "погода|футбол|музыка|выборы|снег|Москва|кофе|весна|поезд|книги|кино|дети",
    "ar": "طقس|كرة_القدم|موسيقى|قهوة|سفر|انتخابات|بحر|كتب",
}
_ENDINGS: Final = "|_2024|now|live|today|2025|Week|_love|News|fans|100|tips|club|Talk|photo|_daily"


def tag_list() -> list[str]:
    """The tags in order of frequency: languages mixed, plain words before compounds."""
    tags: list[str] = []
    for ending in _ENDINGS.split("|"):
        groups = [[f"{word}{ending}" for word in words.split("|")] for words in _WORDS.values()]
        # Deal the languages out in turn, so that the frequent ranks are not all of one.
        ranked = sorted((rank / len(group), number, tag) for number, group in enumerate(groups)
                        for rank, tag in enumerate(group))  # fmt: skip
        tags += [tag for _, _, tag in ranked]
    english = _WORDS["en"].split("|")
    tags += [f"{first}{second.title()}" for first in english for second in english if first != second]
    return list(dict.fromkeys(tags))


def sample_table(tweets: int, seed: int, progress: Callable[[int], None]) -> pa.Table:
    """Columns `id` (int64) and `text`; `progress` is told the number of tweets made."""
    random = np.random.Generator(np.random.PCG64(seed))
    tags = tag_list()
    # One array holds every way a tag is written: as listed, in lower, upper and title case.
    written = pa.array([f"#{form}" for tag in tags for form in (tag, tag.lower(), tag.upper(), tag.title())])
    weights = 1.0 / np.arange(1, len(tags) + 1) ** ZIPF_EXPONENT
    reach = np.cumsum(weights / weights.sum())
    parts = []
    for start in range(0, tweets, CHUNK):
        parts.append(_texts(random, min(CHUNK, tweets - start), written, reach))
        progress(start + len(parts[-1]))
    text = pa.chunked_array(parts, pa.string())
    return pa.table({"id": pa.array(np.arange(tweets, dtype=np.int64)), "text": text})


def _texts(random: Any, size: int, written: pa.Array, reach: npt.NDArray[np.float64]) -> pa.Array:
    languages: Indices = random.choice(len(_SHARES), size, p=list(_SHARES.values()))
    opening, middle = _phrases(random, _OPENINGS, languages), _phrases(random, _MIDDLES, languages)
    endings = pa.array(_CLOSINGS.split("|"))
    ending = endings.take(pa.array(random.integers(0, len(endings), size)))
    body = pc.binary_join_element_wise(opening, middle, " ")
    body = pc.binary_join_element_wise(body, ending, "")
    counts: Indices = random.choice(len(_TAGS_PER_TWEET), size, p=_TAGS_PER_TWEET)
    total = int(counts.sum())
    ranks = np.minimum(np.searchsorted(reach, random.random(total)), len(reach) - 1)
    forms = np.where(random.random(total) < 1 / 6, random.integers(1, 4, total), 0)
    chosen = written.take(pa.array(ranks * 4 + forms))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, chosen), " ")
    tagged = pc.binary_join_element_wise(body, joined, " ")
    # A few tweets open with their tags, without a space before the text, as people do.
    leading = pc.binary_join_element_wise(joined, body, " ")
    text = pc.if_else(pa.array(random.random(size) < 0.15), leading, tagged)
    return pc.if_else(pa.array(counts == 0), body, text)


def _phrases(random: Any, choices: dict[str, str], languages: Indices) -> pa.Array:
    """One phrase for each tweet, in the tweet's language."""
    lists = [choices[language].split("|") for language in _SHARES]
    sizes = np.array([len(phrases) for phrases in lists])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picked = first[languages] + (random.random(len(languages)) * sizes[languages]).astype(np.int64)
    return pa.array([phrase for phrases in lists for phrase in phrases]).take(pa.array(picked))


def sample_write(
    path: str | Path,
    tweets: int = 200_000,
    seed: int = 7,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Write the sample as Parquet, atomically; returns the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = sample_table(tweets, seed, progress or (lambda done: None)).combine_chunks()
    temporary = path.with_name(f".{path.name}.new")
    try:
        pq.write_table(table, temporary, compression="snappy", use_dictionary=False)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs.sources.sample", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--out", required=True, type=Path, help="Parquet file to write")
    parser.add_argument("--tweets", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    if options.tweets < 1 or options.seed < 0:
        parser.error("--tweets must be at least 1 and --seed at least 0")
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Making tweets", total=options.tweets)
        try:
            path = sample_write(
                options.out, options.tweets, options.seed, lambda done: bar.update(task, completed=done)
            )
        except OSError as error:
            console.print(
                f"{options.out}: the sample cannot be written: {error.strerror}. Name a writable place."
            )
            return 1
    console.print(f"{options.tweets:,} tweets, {path.stat().st_size / 1e6:.1f} MB: {path}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
