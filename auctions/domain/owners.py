"""Owners of bids: a team is one, since its members see each other's bids; a user without a team is one, too."""


def owner_number(*, user: int, team: int | None) -> int:
    """Return the number of the owner of a bid of this user and team, by their keys: minus the team's, or the user's.

    Examples
    --------
    >>> from auctions.domain.owners import owner_number
    >>> owner_number(user=7, team=None), owner_number(user=7, team=3)
    (7, -3)
    """
    return user if team is None else -team


def pool_owner(*, user: int, team: int | None, version: int, teams_from: int) -> int:
    """Return who owned a bid in pools of prices when it was first decided, in this version of its market.

    Up to the version `teams_from` each user of a team was an owner there: prices of that time are computed as they
    were.

    Examples
    --------
    >>> from auctions.domain.owners import pool_owner
    >>> [pool_owner(user=7, team=3, version=version, teams_from=20) for version in (20, 21)]
    [7, -3]
    """
    return owner_number(user=user, team=team if version > teams_from else None)
