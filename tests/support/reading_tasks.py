"""Agents that read data, logs and prose: the documents, and loops in which the agent acts on what it can see."""

import datetime
import json
import random
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rounds import Round, Step, Writer
from strict_provider.exchange import Request
from strict_provider.scripts import Call, Turn

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)

Prune: TypeAlias = Callable[[list[Any]], list[Any]]

NAMES = ("Weber", "Ilse", "Okafor", "Marin", "Tanaka", "Silva", "Novak", "Haddad", "Lind", "Petrov", "Gupta")
FIRST_NAMES = ("Ilse", "Ada", "Ngozi", "Kenji", "Rosa", "Omar", "Lena", "Ravi")
LONG_WORDS = (
    *("warehouse", "transport", "customer", "agreement", "following", "delivery", "inventory", "quarterly"),
    *("insurance", "regional", "management", "estimated", "arrival", "of", "the", "and", "was", "in"),
)
RUSSIAN_NAMES = ("Анна", "Вера", "Дарья", "Жанна", "Ирина", "Ольга", "Раиса", "Тамара")
RUSSIAN_SURNAMES = ("Орлова", "Комарова", "Седова", "Белова", "Рябова", "Титова", "Жукова", "Лосева")
CHINESE = "订单已于昨日发往仓库但客户尚未收到通知请尽快核对库存与运输记录并更新系统中的预计到达时间"
JAPANESE = "注文は昨日倉庫へ出荷されましたがお客様にはまだ通知が届いていませんので在庫と配送記録を確認し到着予定"
THAI = (
    *("คำสั่งซื้อ", "ถูกส่ง", "คลังสินค้า", "เมื่อวาน", "ลูกค้า", "ยังไม่ได้รับ", "แจ้ง", "โปรดตรวจสอบ", "สต็อก", "บันทึก"),
    *("การขนส่ง", "อีกครั้ง", "ใบเสร็จ", "ราคา", "สินค้า", "ผู้จัดการ", "รายงาน", "ประจำปี", "ชำระเงิน", "ที่อยู่"),
    *("พนักงาน", "โรงงาน", "ต่างประเทศ", "ท่าเรือ", "ตรวจสอบแล้ว", "เอกสาร", "ภาษี", "ล่าช้า", "ตามกำหนด", "ใหม่"),
)
RUSSIAN = (
    "заказ",
    "отправлен",
    "склад",
    "вчера",
    "клиент",
    "ещё",
    "получил",
    "проверьте",
    "запасы",
    "срок",
    "прибытия",
)
ENGLISH = (
    "order",
    "left",
    "the",
    "warehouse",
    "on",
    "monday",
    "but",
    "customer",
    "was",
    "not",
    "called",
    "stock",
    "again",
)


def _csv(source: random.Random) -> Iterator[str]:
    yield "date,name,region,units,amount"
    while True:
        day, amount = f"2026-{source.randint(1, 12):02}-{source.randint(1, 28):02}", f"{source.uniform(1, 9e3):.2f}"
        yield f"{day},{source.choice(NAMES)},{source.choice('NSEW')},{source.randint(1, 99)},{amount}"


def _log(source: random.Random) -> Iterator[str]:
    while True:
        time, job = f"{source.randint(0, 23):02}:{source.randint(0, 59):02}", source.randint(1, 99_999)
        yield f"{time} INFO worker {source.randint(1, 8)} took job {job} in {source.randint(1, 900)} ms"


def _access_log(source: random.Random) -> Iterator[str]:
    while True:
        address = ".".join(str(source.randint(1, 254)) for _ in range(4))
        time, size = f"[07/Nov/2026:10:{source.randint(0, 59):02}:07 +0000]", source.randint(90, 9_999)
        yield f'{address} - - {time} "GET /items/{source.randint(1, 999)} HTTP/1.1" 200 {size}'


def _rows(source: random.Random) -> Iterator[str]:
    while True:
        yield json.dumps({"id": source.randint(1, 10**6), "name": source.choice(NAMES), "paid": source.random() < 0.5})


def _markdown(source: random.Random) -> Iterator[str]:
    while True:
        yield f"- {source.choice(NAMES)}: {' '.join(source.choices(ENGLISH, k=12))} ({source.randint(10, 9_999)})"


def written(words: Sequence[str], between: str) -> Callable[[random.Random], Iterator[str]]:
    def lines(source: random.Random) -> Iterator[str]:
        while True:
            yield between.join(source.choices(words, k=14)) + ("." if between else "。")

    return lines


LINE = 66  # characters of a line of a PDF file


def _table(source: random.Random) -> Iterator[str]:
    yield "| order | customer | placed | paid |"
    yield "|---|---|---|---|"
    while True:
        day = f"{source.randint(1, 28):02}.{source.randint(1, 12):02}.2026"
        customer = f"{source.choice(FIRST_NAMES)} {source.choice(NAMES)}"
        yield f"| W{source.randint(10**6, 10**7)} | {customer} | {day} | {source.uniform(1e3, 9e3):,.2f} € |"


def _pdf(source: random.Random) -> Iterator[str]:
    """Text of a PDF file: page headers, lines that end in a hyphen, and figures in two columns."""
    page = 0
    while True:
        page += 1
        yield f"Annual Report 2026                                          Page {page} of 99\f"
        text = " ".join(source.choices(LONG_WORDS, k=60)) + "."
        while len(text) > LINE:
            at = LINE - 1 if text[LINE - 2 : LINE].isalpha() else text.rindex(" ", 0, LINE)
            yield text[:at] + ("-" if text[at] != " " else "")
            text = text[at:].lstrip()
        yield text
        for _ in range(4):
            left, right = (f"{source.choice(NAMES):12}{source.randint(10**4, 10**6):>10,}" for _ in range(2))
            yield f"{left}        {right}"


def _russian(source: random.Random) -> Iterator[str]:
    while True:
        day, month = source.randint(1, 28), source.choice(("января", "марта", "мая", "июля", "декабря"))
        customer = f"{source.choice(RUSSIAN_NAMES)} {source.choice(RUSSIAN_SURNAMES)}"
        yield f"{day} {month} 2026 г. {customer}: {' '.join(source.choices(RUSSIAN, k=14))}."


def _base64(source: random.Random) -> Iterator[str]:
    while True:
        yield b64encode(source.randbytes(57)).decode()


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "csv": _csv,
    "log": _log,
    "access log": _access_log,
    "json rows": _rows,
    "markdown": _markdown,
    "markdown table": _table,
    "pdf": _pdf,
    "chinese": written(CHINESE, ""),
    "japanese": written(JAPANESE, ""),
    "thai": written(THAI, ""),
    "russian": _russian,
    "base64": _base64,
}


def document(kind: str, number: int, characters: int = 6_000) -> str:
    """Return a document of a kind, the same for the same number; its first line tells it from all others."""
    lines, made = KINDS[kind](random.Random(f"{kind} {number}")), [f"# {kind} {number:03}"]
    while sum(map(len, made)) < characters:
        made.append(next(lines))
    return "\n".join(made)


# What an agent writes in its report about a line of a document, in its own words and ways to write figures.


def _csv_said(line: str) -> str:
    day, name, _, _, amount = line.split(",")
    date = datetime.date.fromisoformat(day)
    return f"{name} paid ${float(amount):,.2f} on {MONTHS[date.month - 1]} {date.day}, {date.year}"


def _log_said(line: str) -> str:
    words = line.split()
    return f"the slowest job was {words[6]} ({words[8]}ms)"


def _access_log_said(line: str) -> str:
    return f"most bytes went to {line.split()[0]}: {int(line.split()[-1]):_}"


def _row_said(line: str) -> str:
    number = f"{json.loads(line)['id']:,}"
    return f"row {number.replace(',', chr(0x202F))} is not paid"


def _table_said(line: str) -> str:
    _, order, customer, day, paid, _ = (cell.strip() for cell in line.split("|"))
    return f"the order {order} of {customer}, placed on {'-'.join(reversed(day.split('.')))}, cost {paid}"


def _pdf_said(page: str) -> str:
    words = page.partition("\f\n")[2].replace("-\n", "").split()
    return f"it says that “{' '.join(words[3:11])}”"


def _russian_said(line: str) -> str:
    head, _, words = line.partition(": ")
    return f"по словам {' '.join(head.split()[4:])}, «{' '.join(words.split()[2:8])}»"


def _quoted(line: str) -> str:
    return f"it says “{' '.join(line.split()[2:9])}”"


def _copied(line: str) -> str:
    return f"报告：{line[:13]}，"


SAID: dict[str, Callable[[str], str]] = {
    "csv": _csv_said,
    "log": _log_said,
    "access log": _access_log_said,
    "json rows": _row_said,
    "markdown": _quoted,
    "markdown table": _table_said,
    "pdf": _pdf_said,
    "chinese": _copied,
    "japanese": _copied,
    "thai": lambda line: f"รายงาน {line[:60]} จบ",
    "russian": _russian_said,
}


def report(kind: str, documents: Sequence[str]) -> str:
    """Return a report that says something about each document of a kind."""
    lines = (text.split("\n") for text in documents)
    said = (SAID[kind]("\n".join(each[1:]) if kind == "pdf" else each[len(each) // 2]) for each in lines)
    return f"The {kind} files are read: {'; '.join(said)}."


class Reader:
    """An agent that reads documents, one a request, through a pruner.

    With `fed_back` it passes on what the pruner returned, else its full history each time.
    """

    def __init__(self, prune: Prune, write: Writer, documents: Sequence[str], *, fed_back: bool = False) -> None:
        """Begin with a task."""
        self.requests = 0
        self._prune, self._write, self._documents, self._is_fed_back = prune, write, documents, fed_back
        self._rounds: list[Round] = []
        self._messages = write([])

    def visible(self) -> set[int]:
        """Send a request, and return the numbers of the documents that were whole in its prompt."""
        sent = self._prune(self._messages)
        self.requests += 1
        self._messages = sent if self._is_fed_back else self._messages
        held = list(strings(sent))
        return {at for at, document in enumerate(self._documents) if any(document in text for text in held)}

    def read(self, number: int) -> None:
        """Answer the request with a call that reads a document."""
        before = len(self._messages)
        self._rounds.append([Step("read_file", {"path": f"data/{number:03}.txt"}, self._documents[number])])
        self._messages = [*self._messages, *self._write(self._rounds)[before:]]

    def compare(self, requests: int = 30) -> int:
        """Read whatever is missing until all documents are in view at once; return the requests that took.

        The agent stops after so many `requests`, as one does that never gets on.
        """
        while self.requests < requests:
            missing = set(range(len(self._documents))) - self.visible()
            if not missing:
                break
            self.read(min(missing, key=lambda number: (self._reads(number), number)))
        return self.requests

    def _reads(self, number: int) -> int:
        path = f"data/{number:03}.txt"
        return sum(step.arguments["path"] == path for made in self._rounds for step in made if isinstance(step, Step))


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON-like value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


@dataclass
class Comparing:
    """A model that asks for whatever document is missing in its prompt, until all are there. `call` reads a file.

    It gives up after `most` requests.
    """

    documents: Mapping[str, str]  # by path
    call: Callable[[str], Call]
    most: int = 30
    asked: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Turn:
        """Answer a request."""
        texts = list(strings(request.body))
        missing = [path for path, document in self.documents.items() if not any(document in text for text in texts)]
        if not missing or self.asked.total() >= self.most:
            return Turn("I give up." if missing else "All documents are compared.")
        path = min(missing, key=lambda path: self.asked[path])
        self.asked[path] += 1
        return Turn(calls=(self.call(path),))
