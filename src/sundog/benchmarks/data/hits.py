"""`hits`: web analytics events in the shape of ClickBench, with the columns that its 43 queries use.

The cost of a grouping query depends on the number of groups and on their skew. Both are the published ones, at every
size: distinct users 17.6 % of rows, search phrases 6 %, pairs of both 24 %. Seven of eight rows have no phrase; users,
phrases and pages follow power laws; a pair of user and phrase repeats.

The cost of a window or top-k over time depends on the order of the rows. They are ordered by `EventTime` with a jitter
of twenty seconds, over one week with busy days and quiet nights, in whole seconds. At 10 million rows an average row
has about 11,500 rows in the 600 seconds before it.

The literals in the published queries (counter 62, one user, one URL hash, one referer hash) exist in the data, so that
those queries select something. `SELECT *` means these 25 columns, not the original's 105.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sundog.benchmarks.data import text
from sundog.benchmarks.data.draws import Draws, Indexes, Words, key_of, mix, permute
from sundog.benchmarks.data.layout import Layout

ROWS_PER_GROUP = 131_072
GROUPS_PER_FILE = 8

WEEK_START = 1_373_414_400  # 2013-07-10 00:00:00 UTC
WEEK_SECONDS = 7 * 86_400
DAY_NIGHT = 0.5
JITTER_SECONDS = 20

# Domain sizes as shares of the rows, with the exponents of their power laws. Solved so that the expected numbers of
# distinct values are the published shares; `tests/benchmarks/test_data.py` counts them.
USERS, USER_SKEW = 0.18624, 2.5
SEARCH_SHARE = 0.1317
PAIRS, PAIR_SKEW = 0.09085, 1.5
PHRASES, PHRASE_SKEW = 1.458, 2.5
PAGES, PAGE_SKEW = 0.19237, 2.5
TITLES = 0.12
REFERER_SHARE = 0.81
REFERERS, REFERER_SKEW = 0.22048, 2.5
ADDRESSES = 0.137

SITES, SITE_SKEW = 6506, 4.0
REGIONS, REGION_SKEW = 9040, 4.0
QUERIED_SITE_RANK = 5  # its CounterID is 62, with about 0.8 % of the rows
QUERIED_PAGE_SHARE = 0.4
QUERIED_REFERER_SHARE = 0.3
QUERIED_USER = 435090932899640449
QUERIED_URL_HASH = 2868770270353813622
QUERIED_REFERER_HASH = 3594120000172545465

SCHEMA = pa.schema(
    [
        ("WatchID", pa.int64()),
        ("Title", pa.string()),
        ("EventTime", pa.timestamp("us", tz="UTC")),
        ("EventDate", pa.date32()),
        ("CounterID", pa.int32()),
        ("ClientIP", pa.int32()),
        ("RegionID", pa.int32()),
        ("UserID", pa.int64()),
        ("URL", pa.string()),
        ("Referer", pa.string()),
        ("Refresh", pa.int16()),
        ("IsLink", pa.int16()),
        ("IsDownload", pa.int16()),
        ("DontCountHits", pa.int16()),
        ("ResolutionWidth", pa.int16()),
        ("TraficSourceID", pa.int16()),
        ("SearchEngineID", pa.int16()),
        ("SearchPhrase", pa.string()),
        ("AdvEngineID", pa.int16()),
        ("MobilePhone", pa.int16()),
        ("MobilePhoneModel", pa.string()),
        ("WindowClientWidth", pa.int16()),
        ("WindowClientHeight", pa.int16()),
        ("URLHash", pa.int64()),
        ("RefererHash", pa.int64()),
    ]
)

_WIDTHS = np.array([1920, 1366, 1280, 1024, 1440, 1600, 1680, 1152, 800, 360, 320, 2560, 1360, 768, 0, 1368])
_ZONES = ("ru", "com", "net", "org", "ua", "by", "kz", "info")
_FAMILIES = ("Galaxy", "iPhone", "Lumia", "Xperia", "Nexus", "Desire", "Optimus", "Ascend", "Star", "Moto", "Wave")


@dataclass(frozen=True)
class Hits:
    rows: int
    seed: int = 0
    rows_per_group: int = ROWS_PER_GROUP
    groups_per_file: int = GROUPS_PER_FILE

    @property
    def layout(self) -> Layout:
        return Layout(self.rows, self.rows_per_group, self.groups_per_file)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def row_group(self, group: int) -> pa.RecordBatch:
        rows = np.arange(*self.layout.bounds(group), dtype=np.int64)
        draws = Draws(self.seed, "hits")

        searching = draws.flags("searching", rows, SEARCH_SHARE)
        pair = draws.ranks("pair", rows, self._size(PAIRS), PAIR_SKEW)
        user_of_pair = draws.ranks("user of pair", pair, self._size(USERS), USER_SKEW)
        user = np.where(searching, user_of_pair, draws.ranks("user", rows, self._size(USERS), USER_SKEW))
        phrase = draws.ranks("phrase of pair", pair, self._size(PHRASES), PHRASE_SKEW)

        queried_page = self._size(PAGES)  # the one after the last drawn page
        page = draws.ranks("page", rows, queried_page, PAGE_SKEW)
        site = draws.ranks("site of page", page, SITES, SITE_SKEW)
        on_queried_site = site == QUERIED_SITE_RANK
        page = np.where(on_queried_site & draws.flags("queried page", rows, QUERIED_PAGE_SHARE), queried_page, page)

        queried_referer = self._size(REFERERS)
        referer = draws.ranks("referer", rows, queried_referer, REFERER_SKEW)
        from_queried = on_queried_site & draws.flags("queried referer", rows, QUERIED_REFERER_SHARE)
        referer = np.where(from_queried, queried_referer, referer)
        referred = from_queried | draws.flags("referred", rows, REFERER_SHARE)

        seconds = self._event_seconds(draws, rows)
        mobile = draws.flags("mobile user", user, 0.1)
        modelled = mobile & draws.flags("model known", user, 0.55)
        model = draws.ranks("model of user", user, 165, 2.0)
        advertised = draws.flags("advertised", rows, 0.0063)

        columns = {
            "WatchID": permute(rows, 1 << 62, key_of(self.seed, "watch")),
            "Title": self._titles(draws, page),
            "EventTime": pa.array(seconds * 1_000_000).cast(SCHEMA.field("EventTime").type),
            "EventDate": pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32()),
            "CounterID": site * 11 + 7,
            "ClientIP": self._addresses(draws, user),
            "RegionID": draws.ranks("region of user", user, REGIONS, REGION_SKEW) + 1,
            "UserID": self._user_ids(user),
            "URL": self._urls(draws, page, site),
            "Referer": text.choose(referred, self._referers(draws, referer), ""),
            "Refresh": draws.flags("refresh", rows, 0.13),
            "IsLink": draws.flags("link", rows, 0.08),
            "IsDownload": draws.flags("download", rows, 0.002),
            "DontCountHits": draws.flags("uncounted", rows, 0.05),
            "ResolutionWidth": _WIDTHS[draws.ranks("width of user", user, len(_WIDTHS), 2.0)],
            "TraficSourceID": draws.integers("source", rows, -1, 9),
            "SearchEngineID": np.where(searching, draws.ranks("engine of pair", pair, 60, 3.0) + 1, 0),
            "SearchPhrase": text.choose(searching, self._phrases(draws, phrase), ""),
            "AdvEngineID": np.where(advertised, draws.ranks("advertiser", rows, 18, 2.0) + 1, 0),
            "MobilePhone": np.where(mobile, model % 90 + 1, 0),
            "MobilePhoneModel": text.choose(modelled, self._models(model), ""),
            "WindowClientWidth": draws.integers("window width", rows, 300, 1900),
            "WindowClientHeight": draws.integers("window height", rows, 200, 1100),
            "URLHash": np.where(page == queried_page, QUERIED_URL_HASH, _positive(mix(page.astype(np.uint64) + 1))),
            "RefererHash": np.where(
                referred,
                np.where(referer == queried_referer, QUERIED_REFERER_HASH, _positive(mix(~referer.astype(np.uint64)))),
                0,
            ),
        }
        return pa.record_batch([_typed(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)

    def _size(self, share: float) -> int:
        return max(1, round(self.rows * share))

    def _event_seconds(self, draws: Draws, rows: Indexes) -> NDArray[np.int64]:
        """Seven days, each with a slow night and a fast noon, then jitter; whole seconds, inside the week."""
        progress = rows / max(1, self.rows)
        days = 2 * np.pi * 7
        elapsed = WEEK_SECONDS * (progress + DAY_NIGHT * np.sin(days * progress) / days)
        elapsed += (draws.uniform("jitter", rows) * 2 - 1) * JITTER_SECONDS
        return WEEK_START + np.clip(np.floor(elapsed), 0, WEEK_SECONDS - 1).astype(np.int64)

    def _user_ids(self, user: Indexes) -> NDArray[np.int64]:
        queried = min(1000, self._size(USERS) - 1)
        return np.where(user == queried, QUERIED_USER, permute(user, 1 << 62, key_of(self.seed, "user")))

    def _addresses(self, draws: Draws, user: Indexes) -> NDArray[np.int64]:
        """Signed 32 bits, away from the lowest so that `ClientIP - 3` cannot overflow."""
        address = draws.integers("address of user", user, 0, self._size(ADDRESSES) - 1)
        return permute(address, (1 << 32) - 16, key_of(self.seed, "address")) - (1 << 31) + 8

    def _phrases(self, draws: Draws, phrase: Indexes) -> pa.Array:
        """Three words that spell the phrase's number in base 2,048, so that no two phrases are equal."""
        bits = text.VOCABULARY_BITS
        spelled = permute(phrase, 1 << (3 * bits), key_of(self.seed, "phrase"))
        words = [text.pick(text.VOCABULARY, spelled >> (place * bits)) for place in range(3)]
        longer = draws.flags("long phrase", phrase, 0.4)
        return text.join(*words, text.choose(longer, text.pick(text.VOCABULARY, phrase), "2013"), separator=" ")

    def _titles(self, draws: Draws, page: Indexes) -> pa.Array:
        title = draws.integers("title of page", page, 0, self._size(TITLES) - 1)
        words = [text.pick(text.VOCABULARY, draws.bits(f"title word {place}", title)) for place in range(5)]
        about_google = draws.flags("title with Google", title, 0.003)
        brand = text.choose(about_google, "Google", text.pick(text.VOCABULARY, title % 97))
        return text.join(*words, brand, text.number_text(title), separator=" ")

    def _urls(self, draws: Draws, page: Indexes, site: Indexes) -> pa.Array:
        section = text.pick(text.LATIN_WORDS, draws.bits("section of page", page))
        topic = text.choose(
            draws.flags("page about google", page, 0.002),
            "google-search",
            text.pick(text.LATIN_WORDS, draws.bits("topic of page", page)),
        )
        return text.join("http://", self._hosts(site), "/", section, "/", topic, "-", text.number_text(page), ".html")

    def _referers(self, draws: Draws, referer: Indexes) -> pa.Array:
        host = draws.ranks("host of referer", referer, SITES, SITE_SKEW)
        scheme = text.choose(draws.flags("secure referer", referer, 0.3), "https://www.", "http://")
        section = text.pick(text.LATIN_WORDS, draws.bits("section of referer", referer))
        searched = text.choose(draws.flags("searched referer", referer, 0.01), "www.google.com", self._hosts(host))
        return text.join(scheme, searched, "/", section, "?page=", text.number_text(referer))

    def _hosts(self, site: Indexes) -> pa.Array:
        return text.join(
            text.pick(text.LATIN_WORDS, site * 7), text.number_text(site), ".", text.pick_one(_ZONES, site * 3)
        )

    def _models(self, model: Indexes) -> pa.Array:
        return text.join(text.pick_one(_FAMILIES, model), " ", text.number_text(model))


def _positive(words: Words) -> NDArray[np.int64]:
    return (words >> np.uint64(1)).astype(np.int64)


def _typed(values: pa.Array | NDArray[np.generic], dtype: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type.equals(dtype) else array.cast(dtype)
