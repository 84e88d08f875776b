"""What is not worth recalling: messages that only greet, thank or agree, for nothing in them tells anything alone."""

import re

from domain.recall.terms import CJK, terms

_WORDS = """
hello hi hey bye goodbye welcome please thanks thank thx ty cheers sorry pardon ok okay k yes yeah yep yup no
nope nah sure right alright fine good great nice cool perfect excellent awesome wonderful lovely noted
understood got gotcha done agreed indeed exactly absolutely definitely course problem worries pleasure glad
happy help well oh ah hmm hm um uh wow haha hahaha lol really much lot let know go ahead continue sounds makes
sense see youre thats im ill
"""
_EMPTY = frozenset(terms(_WORDS))

_PHRASES = re.compile(
    "好的?|行|对的?|是的?|嗯+|哦+|啊+|呀|呢|吧|吗|哈+|嘿|喂|哎|唉|没错|没事|没问题|没关系|不客气|不用谢?|谢谢?|多谢|感谢|辛苦|收到|"
    "明白|了解|知道|懂|可以|同意|当然|请|继续|早上好|晚上好|晚安|你好|您好|再见|拜拜|抱歉|对不起|不好意思|太|真|很|棒|我|你|您|咱|"
    "们|的|了|就|那|这|先|都|也|已|已经|搞定"
)


def tells_something(text: str) -> bool:
    """Whether a text holds a word that is more than a greeting, a thank or a yes."""
    if any(_PHRASES.sub("", run) for run in CJK.findall(text)):
        return True
    return any(term not in _EMPTY for term in terms(CJK.sub(" ", text)))
