"""Does the code keep its promise? Lower bounds on epsilon, and an attack on one person."""

from sottovoce_lab.audit.attack import Attack, AttackPlan, run_attack
from sottovoce_lab.audit.audit import AuditPlan, AuditResult, examine, run_audit
from sottovoce_lab.audit.clients import Client, live_client
from sottovoce_lab.audit.evidence import ALPHA, Check, judge

__all__ = [
    "ALPHA",
    "Attack",
    "AttackPlan",
    "AuditPlan",
    "AuditResult",
    "Check",
    "Client",
    "examine",
    "judge",
    "live_client",
    "run_attack",
    "run_audit",
]
