"""What can be seen in a prompt: whole results, protected content, and what was shortened or written anew."""

from collections.abc import Sequence

from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import Need
from autoprune.apps.replay.protected import Protected
from autoprune.apps.replay.visible import Text
from autoprune.facts.words import texts
from autoprune.formats import new_parser


class Sight:
    """Says what can be seen in a prompt of an episode. A text is looked for once in each message that was changed."""

    def __init__(self, episode: Episode) -> None:
        """Know the messages and the results of an episode."""
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # messages of the episode that stand in the prompt as they were
        self._others: dict[int, None] = {}  # numbers of the others that stand there
        self._numbers: dict[int, int] = {}  # of all others that ever stood in a prompt, by identity
        self._texts: list[tuple[object, Text]] = []
        self._found: dict[str, tuple[int, list[int]]] = {}  # how many others were looked at, and those that hold a text
        self._parser = new_parser(len)

    def look(self, messages: Sequence[object]) -> None:
        """Look at a prompt."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = {self._number(message): None for message in messages if id(message) not in self._own}

    def has_source(self, need: Need) -> bool:
        """Return whether a result that shows what is needed stands there whole."""
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._holds(self._results[source].text) for source, at in places)

    def has(self, item: Protected) -> bool:
        """Return whether protected content stands there whole: in its message as it was, or elsewhere."""
        return item.message in self._whole or any(all(map(self._holds, form)) for form in item.forms)

    def shows(self, need: Need) -> bool:
        """Return whether what is needed can be seen in what was changed or written anew."""
        return any(self._texts[number][1].shows(need.atom) for number in self._others)

    def _holds(self, text: str) -> bool:
        """Return whether a text stands whole in a message that was changed beside it, or written anew."""
        if not text or not self._others:
            return False
        seen, found = self._found.get(text, (0, []))
        found += (number for number in range(seen, len(self._texts)) if text in self._texts[number][1].raw)
        self._found[text] = len(self._texts), found
        return any(number in self._others for number in found)

    def _number(self, message: object) -> int:
        """Return the number of a message that is none of the episode's, which is read the first time."""
        known = self._numbers.get(id(message))
        if known is None:
            entry = self._parser.read(message, 0)
            said = [*texts(message, entry), *(result.text for result in entry.results)]
            known = self._numbers[id(message)] = len(self._texts)
            self._texts.append((message, Text("\n".join(said))))
        return known
