"""The live market: bids, decisions, commitments, payments, credits of teams and the events that made them.

Constraints are part of the models, so that the database refuses invalid rows.
"""

from auctions.models.credits import (
    MOVES,
    Budget,
    BudgetKind,
    BudgetPeriod,
    CreditAccount,
    CreditEntry,
    CreditKind,
    CreditTransaction,
)
from auctions.models.machines import (
    Commitment,
    Outage,
    OutageKind,
    PlanChange,
    Preemption,
    PsAssignment,
    PsHost,
    QueuedChunks,
    Segment,
)
from auctions.models.market import (
    ADMITTED,
    TERMINAL,
    UNDECIDED,
    WITHDRAWABLE,
    Bid,
    BidState,
    DecisionRecord,
    Event,
    EventKind,
    FirstDecision,
    Market,
    Payment,
    PolicyError,
    PolicyVersion,
)
from auctions.models.prices_and_bounds import BoundKind, Certificate, CompetitiveRatio, Publication, SlotPrice
from auctions.models.seals import OUTCOME, Seal
from auctions.models.turns import OwnerTurn
from auctions.models.webhooks import Delivery, DeliveryStatus, Webhook, WebhookCursor
from auctions.models.workers import FULL_DISK, WorkerSign

__all__ = [
    "ADMITTED",
    "FULL_DISK",
    "MOVES",
    "OUTCOME",
    "TERMINAL",
    "UNDECIDED",
    "WITHDRAWABLE",
    "Bid",
    "BidState",
    "BoundKind",
    "Budget",
    "BudgetKind",
    "BudgetPeriod",
    "Certificate",
    "Commitment",
    "CompetitiveRatio",
    "CreditAccount",
    "CreditEntry",
    "CreditKind",
    "CreditTransaction",
    "DecisionRecord",
    "Delivery",
    "DeliveryStatus",
    "Event",
    "EventKind",
    "FirstDecision",
    "Market",
    "Outage",
    "OutageKind",
    "OwnerTurn",
    "Payment",
    "PlanChange",
    "PolicyError",
    "PolicyVersion",
    "Preemption",
    "PsAssignment",
    "PsHost",
    "Publication",
    "QueuedChunks",
    "Seal",
    "Segment",
    "SlotPrice",
    "Webhook",
    "WebhookCursor",
    "WorkerSign",
]
