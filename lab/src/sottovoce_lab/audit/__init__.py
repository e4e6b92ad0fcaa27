"""An audit of the shipped client: lower bounds on epsilon, and an attack on one person."""

from sottovoce_lab.audit.attack import Attack, AttackPlan, run_attack
from sottovoce_lab.audit.audit import AuditPlan, AuditResult, examine, run_audit
from sottovoce_lab.audit.clients import Client, make_live_client
from sottovoce_lab.audit.verdicts import FALSE_ALARM_RATE, Check, judge

__all__ = [
    "FALSE_ALARM_RATE",
    "Attack",
    "AttackPlan",
    "AuditPlan",
    "AuditResult",
    "Check",
    "Client",
    "examine",
    "judge",
    "make_live_client",
    "run_attack",
    "run_audit",
]
