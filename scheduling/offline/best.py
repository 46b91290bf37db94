"""The one interface: a question and a budget of time, the best bound that comes of it."""

from scheduling.offline.duality import lagrangian
from scheduling.offline.question import Answer, Left, Question


def best_bound(question: Question, left: Left) -> Answer:
    """The best bound that can be proved in the time that is left; at least one of weak duality at price 0.

    Parameters
    ----------
    question
        Jobs, servers, slots, objective, and which schedules the bound has to hold for.
    left
        Seconds that are left.

    Raises
    ------
    InvalidField
        If a job has to be complete by the end and cannot be, even alone; or has nowhere to run.
    """
    return lagrangian(question, left).answer
