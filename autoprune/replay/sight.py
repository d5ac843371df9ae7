"""What can be seen in a prompt of an episode: whole results, and what was shortened or written anew."""

from collections.abc import Sequence

from autoprune.formats import new_parser
from autoprune.formats.words import texts
from autoprune.replay.episode import Episode
from autoprune.replay.evidence import Need
from autoprune.replay.visible import Text


class Sight:
    """Says what can be seen in a prompt of an episode."""

    def __init__(self, episode: Episode) -> None:
        """Know the messages and the results of an episode."""
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # messages of the episode that stand in the prompt as they were
        self._others: list[Text] = []
        self._texts: dict[int, tuple[object, Text]] = {}
        self._parser = new_parser(len)

    def look(self, messages: Sequence[object]) -> None:
        """Look at a prompt."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = [self._text(message) for message in messages if id(message) not in self._own]

    def has_source(self, need: Need) -> bool:
        """Return whether a result that shows what is needed stands there whole."""
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._stands(source) for source, at in places)

    def _stands(self, source: int) -> bool:
        """Return whether a result stands whole in a message that was changed beside it."""
        text = self._results[source].text
        return len(text) > 0 and any(text in other.raw for other in self._others)

    def shows(self, need: Need) -> bool:
        """Return whether what is needed can be seen in what was changed or written anew."""
        return any(text.shows(need.atom) for text in self._others)

    def _text(self, message: object) -> Text:
        known = self._texts.get(id(message))
        if known is None:
            entry = self._parser.read(message, 0)
            said = [*texts(message, entry), *(result.text for result in entry.results)]
            known = self._texts[id(message)] = message, Text("\n".join(said))
        return known[1]
