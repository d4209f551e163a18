"""Objects in Redis: the content in chunks under keys of their own, and a hash of names for each directory.

    <root>:d:<directory>        hash: name -> "<bytes>:<chunks>:<id>" of an object, or "/" of a directory
    <root>:c:<id>:<number>      a chunk of the object that was stored as <id>

Chunks are written first, and expire by themselves. One script then names a whole batch and keeps its chunks,
so an object appears whole or not at all, and what a writer that died has left goes. A script that is sent
twice, because its first answer was lost, changes nothing. Scripts name keys that they were not told, which a
Redis Cluster does not permit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import (
    CHUNK,
    ChunkedStorage,
    NotThereError,
    RefusedError,
    UnavailableError,
    split,
)

UNNAMED_FOR = 86_400
"""Seconds for which chunks stay that no directory names yet: longer than any upload."""
DIRECTORY = b"/"

_SHARED = """
local root = ARGV[1]
local function drop(value)
  local chunks, id = string.match(value, '^%d+:(%d+):(%w+)$')
  if chunks then
    for number = 0, tonumber(chunks) - 1 do redis.call('UNLINK', root .. ':c:' .. id .. ':' .. number) end
  end
end
local function index(directory) return root .. ':d:' .. directory end
"""
_NAME = (
    _SHARED
    + """
local there = {}
for at = 2, #ARGV, 3 do
  local directory, name, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local before = redis.call('HGET', index(directory), name)
  if before and before ~= value then
    drop(value)
    table.insert(there, at)
  elseif not before then
    local chunks, id = string.match(value, '^%d+:(%d+):(%w+)$')
    for number = 0, tonumber(chunks) - 1 do
      if redis.call('PERSIST', root .. ':c:' .. id .. ':' .. number) == 0 then
        return redis.error_reply('LOST a chunk expired before it was named')
      end
    end
    redis.call('HSET', index(directory), name, value)
    while directory ~= '' do
      local above, last = string.match(directory, '^(.*)/([^/]*)$')
      if not above then above, last = '', directory end
      redis.call('HSET', index(above), last, '/')
      directory = above
    end
  end
end
return there
"""
)
_DELETE = (
    _SHARED
    + """
for at = 2, #ARGV, 2 do
  local value = redis.call('HGET', index(ARGV[at]), ARGV[at + 1])
  if value and value ~= '/' then
    drop(value)
    redis.call('HDEL', index(ARGV[at]), ARGV[at + 1])
  end
end
"""
)
_RENAME = (
    _SHARED
    + """
local key = index(ARGV[2])
local value = redis.call('HGET', key, ARGV[3])
if not value or value == '/' then return 0 end
local before = redis.call('HGET', key, ARGV[4])
if before then drop(before) end
redis.call('HSET', key, ARGV[4], value)
redis.call('HDEL', key, ARGV[3])
return 1
"""
)
_REMOVE_TREE = (
    _SHARED
    + """
local function remove(directory)
  local found = redis.call('HGETALL', index(directory))
  for at = 1, #found, 2 do
    if found[at + 1] == '/' then
      remove(directory == '' and found[at] or directory .. '/' .. found[at])
    else
      drop(found[at + 1])
    end
  end
  redis.call('UNLINK', index(directory))
end
remove(ARGV[2])
if ARGV[2] ~= '' then redis.call('HDEL', index(ARGV[3]), ARGV[4]) end
"""
)


class RedisStorage(ChunkedStorage):
    """client: its answers are bytes. root: what the names of all keys begin with."""

    def __init__(self, client: redis.Redis, root: str, place: str) -> None:
        super().__init__(place)
        # Its types do not know that answers are bytes.
        self._client: Any = client
        self._root = root
        self._name, self._delete, self._rename, self._remove = (
            client.register_script(text) for text in (_NAME, _DELETE, _RENAME, _REMOVE_TREE)
        )

    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        batch = _Batch(self._client, self._root)
        with self._told(""):
            for name, source in files.items():
                with source.open("rb") as opened:
                    batch.add(name, iter(lambda: opened.read(CHUNK), b""))
            for name, content in then.items():
                batch.add(name, (content[at : at + CHUNK] for at in range(0, len(content), CHUNK)))
            batch.send()
            if not batch.named:
                return set()
            arguments: list[Any] = [self._root]
            for name, value in batch.named.items():
                arguments += [*split(name), value]
            there = self._name(args=arguments)
        names = list(batch.named)
        return {names[(at - 2) // 3] for at in there}

    def chunks(self, name: str) -> Iterator[bytes]:
        value = self._value(name)
        if value is None:
            raise NotThereError(f"{self.where(name)} is not there")
        size, chunks, identity = value.decode().split(":")
        read = 0
        for number in range(int(chunks)):
            with self._told(name):
                chunk = self._client.get(f"{self._root}:c:{identity}:{number}")
            if chunk is None:
                if self._value(name) != value:
                    raise NotThereError(f"{self.where(name)} was removed while it was read")
                raise DamagedError(f"{self.where(name)} is damaged: part {number} of {chunks} is gone", name)
            read += len(chunk)
            yield chunk
        if read != int(size):
            raise DamagedError(f"{self.where(name)} is damaged: it has {read} bytes of {size}", name)

    def _value(self, name: str) -> bytes | None:
        """What a directory says of an object."""
        directory, last = split(name)
        with self._told(name):
            value: bytes | None = self._client.hget(self._index(directory), last)
        return None if value == DIRECTORY else value

    def entries(self, directory: str) -> dict[str, int | None]:
        with self._told(directory):
            found: dict[bytes, bytes] = self._client.hgetall(self._index(directory))
        return {name.decode(): None if value == DIRECTORY else _size(value) for name, value in found.items()}

    def size(self, name: str) -> int | None:
        value = self._value(name)
        return None if value is None else _size(value)

    def delete(self, names: Iterable[str]) -> None:
        arguments = [self._root, *(part for name in names for part in split(name))]
        with self._told(""):
            self._delete(args=arguments)

    def rename(self, name: str, new: str) -> None:
        with self._told(name):
            if not self._rename(args=[self._root, *split(name), new]):
                raise NotThereError(f"{self.where(name)} is not there")

    def remove_tree(self, directory: str) -> None:
        with self._told(directory):
            self._remove(args=[self._root, directory, *split(directory)])

    def close(self) -> None:
        self._client.close()

    def _index(self, directory: str) -> str:
        return f"{self._root}:d:{directory}"

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        where = self.where(name) if name else self.place
        try:
            yield
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise RefusedError(
                f"{where}: {error}; give the user and password that Redis knows (RESURGE_CHECKPOINTS, "
                "RESURGE_CHECKPOINTS_PASSWORD)"
            ) from error
        except redis.OutOfMemoryError as error:
            raise RefusedError(f"{where}: {error}; give Redis more memory") from error
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise UnavailableError(
                f"{where}: {error}; see whether Redis runs and RESURGE_CHECKPOINTS names it"
            ) from error
        except redis.RedisError as error:
            raise UnavailableError(f"{where}: {error}") from error


class _Batch:
    """Chunks on their way to Redis, sent a few megabytes at a time."""

    def __init__(self, client: redis.Redis, root: str) -> None:
        self.named: dict[str, str] = {}
        self._client = client
        self._root = root
        self._pipeline = client.pipeline(transaction=False)
        self._waiting = 0

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        identity, size, number = token_hex(16), 0, 0
        for chunk in chunks:
            self._pipeline.set(f"{self._root}:c:{identity}:{number}", chunk, ex=UNNAMED_FOR)
            number += 1
            size += len(chunk)
            self._waiting += len(chunk)
            if self._waiting >= CHUNK:
                self.send()
        self.named[name] = f"{size}:{number}:{identity}"

    def send(self) -> None:
        self._waiting = 0
        self._pipeline.execute()


def _size(value: bytes) -> int:
    return int(value.partition(b":")[0])


def redis_client(url: str, password: str) -> redis.Redis:
    """Connections that are made when they are used. password: where the URL has none."""
    further: dict[str, Any] = {"password": password} if password else {}
    client: redis.Redis = redis.Redis.from_url(
        url, socket_connect_timeout=5, socket_timeout=60, retry=Retry(NoBackoff(), 1), **further
    )
    return client
