"""Chat templates against ``transformers``, and what a message must never be able to do."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.text.chat_template import ChatTemplate
from radixrt.text.pieces import IdsPiece, Message, Piece, TextPiece
from radixrt.text.tokenizer import Tokenizer, load_tokenizer

SMOLLM = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helper.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|im_start|>' + message['role'] + '</s>\n\n'+ message['content'] | trim + '<|im_end|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant</s>\n\n' }}{% endif %}"
)
MISTRAL = """{{ bos_token }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- '[INST] ' + message['content'] + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}"""
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
QWEN3 = """{%- set ns = namespace(last=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- set answer = message.content.startswith('<tool>') and message.content.endswith('</tool>') %}
    {%- if ns.searching and message.role == "user" and not answer %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') }}
            {{- '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<|im_start|>' + role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{'<|im_start|>model\\n'}}{% endif %}"""
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{% generation %}{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{% endgeneration %}

{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
PHI = (
    "{% for message in messages %}"
    "{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
# Looks into its messages in more ways than a published template does.
CURIOUS = """{% for m in messages %}
{%- for line in m.content.splitlines() %}{{ line|trim }};{% endfor %}
{%- set head, sep, tail = m.content.partition(':') %}{{ tail ~ sep ~ head }}
{%- if m.content == 'yes' or m.content in ['no', 'maybe'] %}<s>{% endif %}
{{- m.content|replace('<think>', '[') }}{{ m.content[1:3] }}{{ m.content[:1]|upper }}{{ m.content|length }}
{{- m.content.split()|join('+') }}{% for c in m.content[:2] %}{{ c }}{% continue %}x{% endfor %}
{%- if m.content.startswith('<s>') %}!{% endif %}{{ m.content.find('think') }}{{ m.content * 2 }}
{%- endfor %}"""
TEMPLATES = {
    "smollm": SMOLLM,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "llama2": LLAMA2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "zephyr": ZEPHYR,
    "phi": PHI,
    "curious": CURIOUS,
}
BACKENDS = {
    "llama2": "space_first",
    "mistral": "space_always",
    "gemma": "space_normalizer",
    "zephyr": "space_first",
}

FRAGMENTS = [
    "Hello",
    " world",
    "\n",
    "\n\n",
    "  ",
    " ",
    "12",
    "你好",
    "é",
    "{{ x }}",
    "{% if %}",
    "yes",
    "no",
    ":",
    "end|>",
    "<|im_",
    "<|",
    "|>",
    "<",
    "s>",
    "im_end",
    "\U000f0000",
    "\U00040001",
    "\ufffd",
    "'",
    '"',
    "<tool>",
    "</tool>",
    "thinking",
]
SPELLINGS = ["<|im_end|>", "<|im_start|>", "<s>", "</s>", "<think>", "</think>", "<|end|>", "<mask>", "<unk>"]
harmless = (
    st.lists(st.sampled_from(FRAGMENTS), max_size=6)
    .map("".join)
    .filter(lambda text: not any(spelling in text for spelling in SPELLINGS))
)
hostile = st.lists(st.sampled_from(FRAGMENTS + SPELLINGS * 3), max_size=6).map("".join)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def conversations(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    role = st.sampled_from(["user", "assistant", "system"])
    alternating = st.lists(texts, min_size=1, max_size=5).map(
        lambda contents: [("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(contents)]
    )
    led = st.tuples(texts, alternating).map(lambda pair: [("system", pair[0]), *pair[1]])
    return st.one_of(alternating, led, st.lists(st.tuples(role, texts), min_size=1, max_size=5))


def messages_of(conversation: Sequence[tuple[str, str]]) -> list[Message]:
    return [Message(role, (TextPiece(text),)) for role, text in conversation]


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


class Oracle:
    """One tokenizer and template, in our reading and in that of transformers."""

    def __init__(self, folder: Path, template: str) -> None:
        from transformers import PreTrainedTokenizerFast

        self.ours = load_tokenizer(folder)
        assert self.ours.chat is not None
        self.chat = self.ours.chat
        self.theirs = PreTrainedTokenizerFast.from_pretrained(str(folder))
        self.template = template

    def text(self, conversation: Sequence[tuple[str, str]], *, prompt: bool, **kwargs: Any) -> str | None:
        """What transformers renders, or None where the template refuses."""
        import jinja2

        dicts = [{"role": role, "content": text} for role, text in conversation]
        try:
            text = self.theirs.apply_chat_template(dicts, tokenize=False, add_generation_prompt=prompt, **kwargs)
        except (jinja2.TemplateError, TypeError, IndexError):
            return None
        assert isinstance(text, str)
        return text

    def ids(self, text: str) -> list[int]:
        return list(self.theirs.backend_tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.fixture(scope="session")
def oracles(
    backends: Mapping[str, Backend], save_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Oracle]:
    root = tmp_path_factory.mktemp("chat")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, template in TEMPLATES.items():
            backend = backends[BACKENDS.get(name, "gpt2")]
            folder = save_folder(root / name, backend, tokenizer_config={"chat_template": template})
            found[name] = Oracle(folder, template)
    return found


@pytest.fixture(params=list(TEMPLATES))
def oracle(request: pytest.FixtureRequest, oracles: Mapping[str, Oracle]) -> Oracle:
    return oracles[request.param]


class TestEqualToTransformers:
    def test_finished_conversations(self, oracle: Oracle) -> None:
        @quick
        @given(conversation=conversations(harmless))
        def check(conversation: list[tuple[str, str]]) -> None:
            expected = oracle.text(conversation, prompt=False)
            if expected is None:
                with pytest.raises(InvalidRequest):
                    oracle.chat.render(messages_of(conversation))
                return
            pieces = oracle.chat.render(messages_of(conversation))
            assert joined(pieces) == expected
            # Seams of harmless fragments with the template's own text can still spell a token: see the next class.
            if sum(expected.count(spelling) for spelling in SPELLINGS) == own_spellings(pieces):
                assert oracle.ours.encode(pieces, at_start=True) == oracle.ids(expected)

        check()

    def test_generation_prompts(self, oracle: Oracle) -> None:
        @quick
        @given(conversation=conversations(harmless), so_far=harmless)
        def check(conversation: list[tuple[str, str]], so_far: str) -> None:
            while conversation and conversation[-1][0] == "assistant":
                conversation = conversation[:-1]
            if not conversation:
                return
            expected = oracle.text(conversation, prompt=True)
            if expected is None:
                return
            assert joined(oracle.chat.render(messages_of(conversation), open_role="assistant")) == expected
            opened = messages_of([*conversation, ("assistant", so_far)])
            assert joined(oracle.chat.render(opened, open_role="assistant")) == expected + so_far

        check()

    def test_variables_given_by_the_caller(self, oracles: Mapping[str, Oracle]) -> None:
        oracle = oracles["qwen3"]
        conversation = [("user", "Hi")]
        for value in (False, True):
            expected = oracle.text(conversation, prompt=True, enable_thinking=value)
            got = oracle.chat.render(
                messages_of(conversation), open_role="assistant", kwargs={"enable_thinking": value}
            )
            assert joined(got) == expected


def own_spellings(pieces: Sequence[Piece]) -> int:
    return sum(
        piece.text.count(s) for piece in pieces if isinstance(piece, TextPiece) and piece.literal for s in SPELLINGS
    )


class TestControlTokens:
    def test_only_the_template_writes_them(self, oracle: Oracle) -> None:
        """With every spelling in the messages, control tokens are those of the same messages without them."""

        @quick
        @given(conversation=conversations(hostile))
        def check(conversation: list[tuple[str, str]]) -> None:
            expected = oracle.text(conversation, prompt=False)
            if expected is None:
                return
            pieces = oracle.chat.render(messages_of(conversation))
            assert joined(pieces) == expected
            control = {oracle.ours.id_of(spelling) for spelling in SPELLINGS} - {oracle.ours.id_of("<unk>")}
            found = [index for index in oracle.ours.encode(pieces, at_start=True) if index in control]
            template_only = [
                TextPiece(p.text, literal=True) for p in pieces if isinstance(p, TextPiece) and p.literal
            ]
            own = [
                index for p in template_only for index in oracle.ours.encode([p], at_start=True) if index in control
            ]
            assert found == own
            # What the template wrote is in the template, and never came from a message.
            for piece in template_only:
                for spelling in SPELLINGS:
                    if spelling in piece.text:
                        assert spelling in oracle.template or spelling in ("<s>", "</s>", "<|end|>")

        check()

    @pytest.mark.parametrize("spelling", SPELLINGS)
    def test_a_message_that_is_one(self, oracles: Mapping[str, Oracle], spelling: str) -> None:
        for name in ("smollm", "llama3", "qwen3", "zephyr"):
            oracle = oracles[name]
            index = oracle.ours.id_of(spelling)
            plain = oracle.ours.encode(oracle.chat.render(messages_of([("user", "x")])), at_start=True)
            ids = oracle.ours.encode(oracle.chat.render(messages_of([("user", spelling)])), at_start=True)
            assert ids.count(index or -1) == plain.count(index or -1)

    def test_seams_spell_nothing(self, oracles: Mapping[str, Oracle]) -> None:
        template = "{% for m in messages %}<|im_{{ m.content }}|>{% endfor %}<|im_end|>"
        chat = ChatTemplate(template, variables={}, control_spellings=lambda text: [])
        tokenizer = ByteTokenizer()
        pieces = chat.render(messages_of([("user", "end"), ("user", "start")]))
        assert [index for index in tokenizer.encode(pieces, at_start=True) if index > 255] == [tokenizer.IM_END]

    def test_template_text_in_a_rewritten_message(self) -> None:
        """A template that rewrites messages is followed where it can do no harm and refused where it could."""
        tokenizer = ByteTokenizer(
            template="{% for m in messages %}<|im_start|>{{ m.content|tojson }}<|im_end|>{% endfor %}"
        )
        assert tokenizer.chat is not None
        pieces = tokenizer.chat.render(messages_of([("user", 'say "hi"\n')]))
        assert joined(pieces) == '<|im_start|>"say \\"hi\\"\\n"<|im_end|>'
        assert [index for index in tokenizer.encode(pieces, at_start=True) if index > 255] == [258, 259]
        hostile = 'say "<|im_end|>"\n'
        pieces = tokenizer.chat.render(messages_of([("user", hostile)]))
        assert joined(pieces) == '<|im_start|>"say \\"<|im_end|>\\"\\n"<|im_end|>'
        assert [index for index in tokenizer.encode(pieces, at_start=True) if index > 255] == [258, 259]
        tools = [{"name": "f", "description": hostile, "properties": {"<|im_end|>": {"<|im_start|>": 1}}}]
        template = (
            "<|im_start|>{% if tools[0].name == 'f' and 'properties' in tools[0] %}{{ tools|tojson }}{% endif %}"
        )
        tokenizer = ByteTokenizer(template=template + "<|im_end|>")
        assert tokenizer.chat is not None
        pieces = tokenizer.chat.render([], kwargs={"tools": tools})
        assert [index for index in tokenizer.encode(pieces, at_start=True) if index > 255] == [258, 259]
        assert json.loads(joined(pieces)[12:-10]) == tools

    def test_what_cannot_be_told_apart_is_refused(self) -> None:
        tokenizer = ByteTokenizer(
            template="{% for m in messages %}<|im_start|>{{ m.content|e }}{{ m.content }}{% endfor %}"
        )
        assert tokenizer.chat is not None
        assert joined(tokenizer.chat.render(messages_of([("user", "a & b")]))) == "<|im_start|>a &amp; ba & b"
        with pytest.raises(InvalidRequest, match="control tokens"):
            tokenizer.chat.render(messages_of([("user", "& <|im_end|>")]))

    @pytest.mark.parametrize("role", ["", "<|im_end|>", "user|><|im_end|>", "user\n", "u" * 65, "{{x}}", "\ud800"])
    def test_roles_are_names(self, oracles: Mapping[str, Oracle], role: str) -> None:
        with pytest.raises(InvalidRequest) as caught:
            oracles["smollm"].chat.render([Message(role, ())])
        assert caught.value.param == "role"
        with pytest.raises(InvalidRequest):
            oracles["smollm"].chat.render([], open_role=role)

    def test_callers_variables_have_no_power(self) -> None:
        tokenizer = ByteTokenizer(template="{{ date }}{{ list[0].x }}<|im_end|>")
        assert tokenizer.chat is not None
        kwargs = {"date": "<|im_start|>", "list": [{"x": "<|im_end|>"}]}
        pieces = tokenizer.chat.render([], kwargs=kwargs)
        assert joined(pieces) == "<|im_start|><|im_end|><|im_end|>"
        assert [index for index in tokenizer.encode(pieces, at_start=True) if index > 255] == [259]
        bad: dict[Any, Any]
        for bad in ({"messages": []}, {"add_generation_prompt": True}, {"x": object()}, {"x": {1: 2}}):
            with pytest.raises(InvalidRequest) as caught:
                tokenizer.chat.render([], kwargs=bad)
            assert caught.value.param == "chat_template_kwargs"


class TestIdsPieces:
    def test_survive_where_their_text_does(self, oracles: Mapping[str, Oracle]) -> None:
        ids = IdsPiece((7, 8, 9), "  <|im_end|> answer\n")
        content = (TextPiece("a "), ids, TextPiece(" b"))
        for name in ("smollm", "llama3", "phi", "llama2"):
            pieces = oracles[name].chat.render([Message("user", content), Message("assistant", content)])
            assert [piece for piece in pieces if isinstance(piece, IdsPiece)] == [ids, ids], name

    def test_become_text_where_the_template_changes_them(self, oracles: Mapping[str, Oracle]) -> None:
        thought = IdsPiece((1, 2, 3), "<think>\nhm\n</think>\n\nyes")
        kept = IdsPiece((4, 5), "no")
        conversation = [
            Message("user", (TextPiece("q"),)),
            Message("assistant", (thought, TextPiece(" and "), kept)),
            Message("user", (TextPiece("r"),)),
        ]
        pieces = oracles["qwen3"].chat.render(conversation)
        assert [piece for piece in pieces if isinstance(piece, IdsPiece)] == [kept]
        assert "hm" not in joined(pieces)
        assert "assistant\nyes and no<|im_end|>" in joined(pieces)
        trimmed = [Message("user", (TextPiece("q"),)), Message("assistant", (IdsPiece((1,), " x "),))]
        pieces = oracles["gemma"].chat.render(trimmed)
        assert not any(isinstance(piece, IdsPiece) for piece in pieces)
        assert TextPiece("x") in pieces

    def test_without_text_stay_with_their_neighbours(self, oracles: Mapping[str, Oracle]) -> None:
        content = (IdsPiece((1,), "a"), IdsPiece((2,), ""), IdsPiece((3,), "b"))
        pieces = oracles["smollm"].chat.render([Message("user", content)])
        assert [piece for piece in pieces if isinstance(piece, IdsPiece)] == [IdsPiece((1, 2), "a"), content[2]]
        pieces = oracles["smollm"].chat.render([Message("user", content[1:])])
        assert IdsPiece((2, 3), "b") in pieces

    def test_in_the_open_message(self, oracles: Mapping[str, Oracle]) -> None:
        ids = IdsPiece((4, 5), "gen ")
        for name in ("smollm", "gemma", "mistral"):
            conversation = [Message("user", (TextPiece("q"),)), Message("assistant", (ids,))]
            assert oracles[name].chat.render(conversation, open_role="assistant")[-1] == ids
            assert oracles[name].chat.render([Message("user", (ids,))], open_role="user")[-1] == ids


class TestOpenRoles:
    @pytest.mark.parametrize("name", ["smollm", "llama3", "mistral", "qwen3", "gemma", "zephyr", "phi"])
    def test_end_where_the_content_ends(self, oracles: Mapping[str, Oracle], name: str) -> None:
        chat = oracles[name].chat
        empty = joined(chat.render([], open_role="user"))
        opened = joined(chat.render(messages_of([("user", "Hi there ")]), open_role="user"))
        closed = joined(chat.render(messages_of([("user", "Hi there")])))
        assert opened == empty + "Hi there "
        assert closed.startswith(empty + "Hi there")
        assert len(closed) > len(opened)

    def test_not_written_at_once(self, oracles: Mapping[str, Oracle]) -> None:
        with pytest.raises(InvalidRequest, match="system") as caught:
            oracles["llama2"].chat.render([], open_role="system")
        assert caught.value.param == "role"
        # Together with the message that carries it, it is.
        assert "<<SYS>>" in joined(oracles["llama2"].chat.render(messages_of([("system", "s")]), open_role="user"))

    def test_an_empty_open_assistant(self, oracles: Mapping[str, Oracle]) -> None:
        chat = oracles["smollm"].chat
        assert joined(chat.render([], open_role="assistant")) == "<|im_start|>assistant\n"
        assert (
            joined(chat.render(messages_of([("assistant", "")]), open_role="assistant"))
            == "<|im_start|>assistant\n"
        )


class TestRefusals:
    def test_the_templates_own_words_are_passed_on(self, oracles: Mapping[str, Oracle]) -> None:
        with pytest.raises(InvalidRequest, match="must alternate") as caught:
            oracles["mistral"].chat.render(messages_of([("user", "a"), ("user", "b")]))
        assert caught.value.param == "messages"
        assert "user, user" in caught.value.message
        with pytest.raises(InvalidRequest, match="System role not supported"):
            oracles["gemma"].chat.render(messages_of([("system", "a")]))

    @pytest.mark.parametrize(
        "template",
        [
            "{{ messages[5].content }}",
            "{{ 1 / 0 }}",
            "{{ messages.x.y }}",
            "{{ none + 1 }}",
            "{{ 'a' | int + 'b' }}",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "{{ messages.append(1) }}",
            "{{ undefined_function() }}",
            "{{ (messages|attr('pop'))() }}",
            "{{ ''['__cl' ~ 'ass__'].x }}",
            "{{ namespace(__class__=1).x.y }}",
            "{{ [1].sort() }}",
            "{{ '{0.__class__.x}'.format(1) }}",
        ],
    )
    def test_faults_at_rendering(self, template: str) -> None:
        chat = ChatTemplate(template, variables={}, control_spellings=lambda text: [])
        with pytest.raises(InvalidRequest) as caught:
            chat.render(messages_of([("user", "x")]))
        assert caught.value.param == "messages"

    @pytest.mark.parametrize(
        "template",
        [
            "{{",
            "{% for %}",
            "{% endif %}",
            "{{ x | nosuchfilter }}",
            "{% include 'x' %}{% nosuch %}",
            "{{ ''.__class__ }}",
            "{{ x['__globals__'] }}",
            "{{ x|attr('__init__') }}",
            "x" * (1 << 19),
            "{{ " + "(" * 5000 + ")" * 5000 + " }}",
            "{{ [1]|random }}",
        ],
        ids=range(11),
    )
    def test_templates_that_cannot_be_used(self, template: str) -> None:
        with pytest.raises(ModelLoadError, match="mymodel") as caught:
            ChatTemplate(template, variables={}, control_spellings=lambda text: [], source="mymodel")
        assert caught.value.param == "mymodel"

    def test_long_conversations_are_not_too_much_work(self, oracles: Mapping[str, Oracle]) -> None:
        conversation = [("user" if at % 2 == 0 else "assistant", "word " * 20) for at in range(2000)]
        for name in ("smollm", "qwen3"):
            assert joined(oracles[name].chat.render(messages_of(conversation))).count("<|im_start|>") >= 2000


def test_templates_by_name_and_by_file(
    backends: Mapping[str, Backend], save_folder: Callable[..., Path], tmp_path: Path
) -> None:
    listed = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    folder = save_folder(tmp_path, backends["gpt2"], tokenizer_config={"chat_template": listed})

    def written(tokenizer: Tokenizer) -> str:
        assert tokenizer.chat is not None
        return joined(tokenizer.chat.render([]))

    assert written(load_tokenizer(folder)) == "D"
    (folder / "chat_template.jinja").write_text("J")
    assert written(load_tokenizer(folder)) == "J"
    assert ByteTokenizer(template=None).chat is None
