"""What a run says of itself: graph, metadata, hardware, ports, places."""

import json

from tests.unit.run.play import Play
from trackside.run import outputs
from trackside.wire import messages


def test_b22_the_first_non_empty_graph_wins_and_another_structure_is_one_warning() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.SetGraph(label="early", hash=None))
    play.tell(zero, messages.SetGraph(svg="<svg>1</svg>", label="net", hash="aaaa"))
    play.tell(one, messages.SetGraph(svg="<svg>2</svg>", label="other", hash="bbbb"))
    assert (play.machine.svg(), play.run.label, play.run.hash) == ("<svg>1</svg>", "net", "aaaa")
    (event,) = play.events("hash mismatch")
    assert event.path == "root/a/rank1"


def test_b22_a_later_rank_of_the_same_structure_changes_nothing_and_warns_nobody() -> None:
    play = Play()
    for rank in range(3):
        play.tell(
            play.hello(rank, world=3), messages.SetGraph(svg=f"<svg>{rank}</svg>", label=f"net {rank}", hash="aaaa")
        )
    play.tell(play.hello(0, world=3), messages.SetGraph(svg="", label=None, hash=None))
    assert (play.machine.svg(), play.run.label, play.run.hash) == ("<svg>0</svg>", "net 0", "aaaa")
    assert play.events() == []


def test_b22_an_empty_drawing_is_none() -> None:
    play = Play()
    zero = play.hello(0, world=1)
    play.tell(zero, messages.SetGraph(svg="", label="early"))
    assert (play.machine.svg(), play.run.has_svg) == (None, False)
    play.tell(zero, messages.SetGraph(svg="<svg>1</svg>"))
    assert (play.machine.svg(), play.run.label) == ("<svg>1</svg>", "early")


def test_b22_a_rank_that_names_a_second_model_trains_no_other_one() -> None:
    play = Play()
    zero = play.hello(0)
    play.tell(zero, messages.SetGraph(label="generator", hash="aaaa"))
    play.tell(zero, messages.SetGraph(svg="<svg>2</svg>", label="critic", hash="bbbb"))
    assert play.events("hash mismatch") == []
    play.tell(play.hello(1), messages.SetGraph(label="other", hash="cccc"))
    assert [event.path for event in play.events("hash mismatch")] == ["root/a/rank1"]


def test_b23_metadata_the_last_write_wins_and_malformed_text_is_discarded() -> None:
    play = Play()
    session = play.hello(0)
    play.tell(session, messages.SetMetadata(text='{"lr": 1}'))
    play.tell(session, messages.SetMetadata(text='{"lr": 2}'))
    play.tell(session, messages.SetMetadata(text='{"lr": '))
    assert play.run.metadata == {"lr": 2}
    (refused,) = play.events("metadata refused")
    assert refused.text.startswith("metadata of 7 characters is not taken: it is not JSON (")
    assert refused.text.endswith("the former metadata stays")
    assert [message.text for message in play.asked(outputs.SetMetadata)] == ['{"lr":1}', '{"lr":2}']


def test_b23_parameter_counts_survive_any_order_and_the_users_key_wins() -> None:
    counts = {"total": 10, "trainable": 8, "frozen": 2}
    writes = [messages.SetMetadata(watched=counts), messages.SetMetadata(text='{"lr": 1}')]
    for order in (writes, writes[::-1]):
        play = Play()
        session = play.hello(0)
        for write in order:
            play.tell(session, write)
        assert play.run.metadata == {"lr": 1, "parameters": counts}
    play.tell(session, messages.SetMetadata(text='{"parameters": "mine"}'))
    assert play.run.metadata == {"parameters": "mine"}
    play.tell(session, messages.SetMetadata(text="[1, 2]"))
    assert play.run.metadata == [1, 2]


def test_b24_hardware_is_grouped_by_host_in_topology_order() -> None:
    play = Play()
    three = play.hello(3, world=4, host="b", local=1)
    zero = play.hello(0, world=4, host="a", local=0)
    one = play.hello(1, world=4, host="a", local=1)
    play.hello(2, world=4, host="c", local=0)
    play.tell(three, messages.SetHardware(cpu="Xeon", gpu="H200"))
    play.tell(one, messages.SetHardware(cpu="EPYC 1", gpu="A100"))
    play.tell(zero, messages.SetHardware(cpu="EPYC", gpu=None))
    assert play.run.hardware == "a: EPYC | gr=1 lr=1: A100 | b: Xeon | gr=3 lr=1: H200"


def test_b24_the_cpu_is_that_of_the_hosts_first_rank_that_has_reported() -> None:
    play = Play()
    one, zero = play.hello(1, world=2), play.hello(0, world=2)
    play.tell(one, messages.SetHardware(cpu="EPYC (64 threads)", gpu="A100"))
    assert play.run.hardware == "a: EPYC (64 threads) | gr=1 lr=1: A100"
    play.tell(zero, messages.SetHardware(cpu="EPYC (32 threads)", gpu="A100"))
    assert play.run.hardware == "a: EPYC (32 threads) | gr=0 lr=0: A100 | gr=1 lr=1: A100"
    play.tell(zero, messages.SetHardware(cpu="EPYC (32 threads)", gpu=None))
    assert play.asked(outputs.SetHardware)[-1].text == "a: EPYC (32 threads) | gr=1 lr=1: A100", "rebuilt each time"


def test_b24_d18_the_line_is_the_union_of_all_hosts_in_the_order_of_their_ranks() -> None:
    play = Play()
    for rank, name in ((5, "c"), (2, "b"), (0, "z"), (1, "z"), (3, "b"), (4, "c")):
        session = play.hello(rank, world=6, host=name, local=rank % 2)
        play.tell(session, messages.SetHardware(cpu=f"cpu of {name}", gpu=f"gpu{rank}"))
    assert play.run.hardware == (
        "z: cpu of z | gr=0 lr=0: gpu0 | gr=1 lr=1: gpu1"
        " | b: cpu of b | gr=2 lr=0: gpu2 | gr=3 lr=1: gpu3"
        " | c: cpu of c | gr=4 lr=0: gpu4 | gr=5 lr=1: gpu5"
    )


def test_b24_a_rank_outside_the_world_is_ignored() -> None:
    play = Play()
    zero, three = play.hello(0, world=4), play.hello(3, world=4)
    play.tell(three, messages.SetHardware(cpu="of the old world", gpu="A100"))
    seven = play.hello(7, world=4)
    assert play.tell(seven, messages.SetHardware(cpu="nobody's", gpu=None)) == []
    again = play.hello(0, world=2, generation=1)
    play.tell(again, messages.SetHardware(cpu="EPYC", gpu=None))
    play.tell(three, messages.SetHardware(cpu="a ghost's", gpu="A100"))
    play.tell(zero, messages.SetHardware(cpu="a ghost's", gpu="A100"))
    assert play.run.hardware == "a: EPYC"


def test_b17_the_agent_samples_its_host_else_the_lowest_rank_and_another_follows_a_lost_one() -> None:
    play = Play()
    one = play.hello(1)
    zero = play.hello(0)
    appointed = [(reply.session, reply.message.sample_host) for reply in _appointments(play)]
    assert appointed == [(one, True), (one, False), (zero, True)]
    play.at += 31
    play.beat(one)
    play.wait(0)
    assert [(r.session, r.message.sample_host) for r in _appointments(play)][-1] == (one, True)
    agent = play.agent()
    assert [(r.session, r.message.sample_host) for r in _appointments(play)][-2:] == [(one, False), (agent, True)]


def _appointments(play: Play) -> list[outputs.Reply]:
    return [reply for reply in play.asked(outputs.Reply) if isinstance(reply.message, messages.Appoint)]


def test_two_machines_of_one_name_are_two_hosts() -> None:
    play = Play()
    play.hello(0, host="node", machine="m1")
    play.hello(1, host="node", machine="m2")
    assert play.run.hosts == ["node", "node~2"]
    assert [entry.path for entry in play.ranks] == ["root/node/rank0", "root/node~2/rank1"]


def test_the_plan_and_config_reach_the_document() -> None:
    play = Play()
    session = play.hello(0)
    play.tell(session, messages.SetPlan(epochs=10, steps=None, name="better", config=json.dumps({"lr": 0.1})))
    assert (play.run.epochs, play.run.name, play.run.metadata) == (10, "better", {"config": {"lr": 0.1}})


def test_a_snapshot_restores_everything() -> None:
    play = Play()
    session = play.hello(0)
    play.metric(0, "loss")
    play.points([(0, 0, 1, float("nan")), (0, 0, 2, 0.5)])
    play.tell(session, messages.SetMetadata(text='{"a": [1, {"b": null}]}'))
    play.tell(session, messages.EpochReport(epoch=0, metrics={"loss": 0.5}))
    again = type(play.machine).restore(play.machine.snapshot())
    assert again.run_document(play.now) == play.run
    assert again.rank_entries(play.now) == play.ranks
    assert again.event_records() == play.machine.event_records()
    assert again.epoch_records() == play.machine.epoch_records()
    assert again.snapshot() == play.machine.snapshot()
