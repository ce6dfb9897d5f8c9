"""Field numbers of Parquet's Thrift structs (parquet.thrift), by name: those that sundog reads or writes."""

from __future__ import annotations


class FileFields:
    VERSION = 1
    SCHEMA = 2
    NUM_ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUES = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION_ALGORITHM = 8
    FOOTER_SIGNING_KEY = 9


class KeyValueFields:
    KEY = 1
    VALUE = 2


class ColumnOrderFields:
    TYPE_ORDER = 1


class SchemaFields:
    TYPE = 1
    TYPE_LENGTH = 2
    REPETITION = 3
    NAME = 4
    NUM_CHILDREN = 5
    FIELD_ID = 9


class RowGroupFields:
    COLUMNS = 1
    TOTAL_BYTES = 2
    NUM_ROWS = 3


class ChunkFields:
    FILE_PATH = 1
    FILE_OFFSET = 2
    METADATA = 3
    OFFSET_INDEX_OFFSET = 4
    OFFSET_INDEX_BYTES = 5
    COLUMN_INDEX_OFFSET = 6
    COLUMN_INDEX_BYTES = 7
    CRYPTO_METADATA = 8
    ENCRYPTED_METADATA = 9


class ChunkMetadataFields:
    TYPE = 1
    ENCODINGS = 2
    PATH = 3
    CODEC = 4
    NUM_VALUES = 5
    UNCOMPRESSED_BYTES = 6
    COMPRESSED_BYTES = 7
    DATA_PAGE_OFFSET = 9
    DICTIONARY_PAGE_OFFSET = 11
    STATISTICS = 12
    BLOOM_FILTER_OFFSET = 14
    BLOOM_FILTER_BYTES = 15


class StatisticsFields:
    MAX = 1  # deprecated: in an order that the writer chose
    MIN = 2
    NULL_COUNT = 3
    MAX_VALUE = 5
    MIN_VALUE = 6


class BloomFilterFields:
    NUM_BYTES = 1
    ALGORITHM = 2
    HASH = 3
    COMPRESSION = 4


class OffsetIndexFields:
    PAGES = 1


class PageLocationFields:
    OFFSET = 1
    BYTES = 2
    FIRST_ROW = 3


class ColumnIndexFields:
    NULL_PAGES = 1
    MIN_VALUES = 2
    MAX_VALUES = 3


class PageHeaderFields:
    KIND = 1
    UNCOMPRESSED_BYTES = 2
    COMPRESSED_BYTES = 3
    DATA_PAGE = 5
    DICTIONARY_PAGE = 7
    DATA_PAGE_V2 = 8


class DataPageFields:
    NUM_VALUES = 1
    ENCODING = 2
    DEFINITION_LEVEL_ENCODING = 3


class DictionaryPageFields:
    NUM_VALUES = 1
    ENCODING = 2


class DataPageV2Fields:
    NUM_VALUES = 1
    NUM_NULLS = 2
    NUM_ROWS = 3
    ENCODING = 4
    DEFINITION_LEVEL_BYTES = 5
    REPETITION_LEVEL_BYTES = 6
    IS_COMPRESSED = 7
