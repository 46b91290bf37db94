from scheduling.model.ending import Ending
from scheduling.model.utility import Linear


def test_nothing_is_worth_anything_once_it_has_ended() -> None:
    whole = Linear(12, 2)
    ending = Ending(whole, 3)
    assert [ending.at(elapsed) for elapsed in range(5)] == [12, 10, 8, 6, 0]
    assert ending.curve(5).tolist() == [12, 10, 8, 6, 0]
    assert ending.scaled(2).curve(5).tolist() == [24, 20, 16, 12, 0]
    assert ending.value == 12
    assert ending.to_json() == whole.to_json()


def test_what_ended_before_it_began_is_worth_nothing() -> None:
    assert Ending(Linear(12, 2), -1).curve(3).tolist() == [0, 0, 0]
