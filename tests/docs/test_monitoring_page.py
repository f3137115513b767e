"""The page about monitoring and its files: every metric is there, and nothing else is."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.doc_pages import DOCS, table_rows
from tests.programs import need
from windlass.observe import metrics
from windlass.observe.metrics import METRICS, Ending, Kind

PAGE = DOCS / "monitoring.md"
FILES = DOCS / "monitoring"
RULES = (FILES / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
SERIES = {
    f"{metric.name}{end}": metric
    for metric in METRICS
    for end in (("_bucket", "_count", "_sum") if metric.kind is Kind.HISTOGRAM else ("",))
}


def expressions() -> list[str]:
    """What the rules and the dashboard ask Prometheus."""
    asked = re.findall(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)$)", RULES, re.MULTILINE)
    found = [folded or line for folded, line in asked]
    found += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    found += [
        variable["query"]["query"]
        for variable in DASHBOARD["templating"]["list"]
        if isinstance(variable["query"], dict)
    ]
    return found


def test_the_table_of_metrics_is_the_declaration() -> None:
    rows = table_rows(PAGE, "## Metrics")
    shown = {row[0].strip("`"): (row[1], re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert shown == {one.name: (one.kind.value, list(one.labels)) for one in METRICS}
    assert all(row[3] for row in rows)


def test_every_declared_metric_is_in_the_list_once() -> None:
    declared = [one for one in vars(metrics).values() if isinstance(one, metrics.Metric)]
    assert sorted(declared) == sorted(METRICS)
    assert len({one.name for one in METRICS}) == len(METRICS)
    for one in METRICS:
        assert one.help.endswith(".")
        assert (one.kind is Kind.COUNTER) == one.name.endswith("_total")
        assert one.bounds == tuple(sorted(one.bounds))


def test_the_table_of_outcomes_is_complete() -> None:
    text = (
        PAGE.read_text(encoding="utf-8").partition("`outcome` is one of")[2].partition("\n\nE")[0]
    )
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [one.value for one in Ending]


def test_rules_and_dashboard_name_only_what_there_is() -> None:
    asked = expressions()
    assert len(asked) > 30
    used = {name for one in asked for name in re.findall(r"\bwindlass_\w+", one)}
    assert used <= set(SERIES), used - set(SERIES)
    shown = {SERIES[name].name for name in used}
    assert shown == {one.name for one in METRICS}, "every metric is asked for somewhere"
    for one in asked:
        for name, labels in re.findall(r"(\bwindlass_\w+)\{([^}]*)\}", one):
            known = {*SERIES[name].labels, "job", "instance", "le"}
            assert set(re.findall(r"(\w+)=", labels)) <= known


def test_every_rule_is_explained() -> None:
    rules = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)
    rows = table_rows(PAGE, "## Dashboard and alerts")
    assert [row[0].strip("`") for row in rows] == rules


@pytest.mark.slow
@pytest.mark.parametrize(("what", "file"), [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_prometheus_can_load_the_file(what: str, file: str) -> None:
    promtool = need("promtool", package="prometheus")
    done = subprocess.run([promtool, "check", what, FILES / file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


FIRING = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'windlass_store_up{{job="w",instance="a"}}', values: '1x10 0x20'}}
      - {{series: 'windlass_slots{{job="w",instance="a",state="idle"}}', values: '10x30'}}
      - {{series: 'windlass_queue_jobs{{job="w",instance="a",state="ready"}}', values: '7x30'}}
      - {{series: 'windlass_queue_jobs{{job="other",instance="b",state="ready"}}', values: '7x30'}}
      - {{series: 'windlass_oldest_ready_seconds{{job="w",instance="a"}}', values: '0+60x30'}}
      - series: 'windlass_jobs_processed_total{{job="w",instance="a",task="t",outcome="poison"}}'
        values: '0x10 1x20'
      - series: 'windlass_jobs_processed_total{{job="w",instance="a",task="u",outcome="retry"}}'
        values: '0+60x30'
      - series: 'windlass_jobs_processed_total{{job="w",instance="a",task="u",outcome="ok"}}'
        values: '0+30x30'
    alert_rule_test:
      - {{eval_time: 12m, alertname: WindlassNotScraped, exp_alerts: []}}
      - {{eval_time: 9m, alertname: WindlassStoreDown, exp_alerts: []}}
      - {{eval_time: 9m, alertname: WindlassJobsWaitTooLong, exp_alerts: []}}
      - {{eval_time: 9m, alertname: WindlassJobsFail, exp_alerts: []}}
      - {{eval_time: 10m, alertname: WindlassLeasesLost, exp_alerts: []}}
    promql_expr_test:
      - expr: count by (alertname, job, task) (ALERTS{{alertstate="firing"}})
        eval_time: 20m
        exp_samples:
          - {{labels: '{{alertname="WindlassStoreDown", job="w"}}', value: 1}}
          - {{labels: '{{alertname="WindlassNoWorker", job="other"}}', value: 1}}
          - {{labels: '{{alertname="WindlassJobsWaitTooLong", job="w"}}', value: 1}}
          - {{labels: '{{alertname="WindlassJobsFail", job="w", task="t"}}', value: 1}}
          - {{labels: '{{alertname="WindlassRetryStorm", job="w", task="u"}}', value: 1}}
"""


@pytest.mark.slow
def test_rules_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    promtool = need("promtool", package="prometheus")
    case = tmp_path / "firing.yml"
    case.write_text(FIRING.format(rules=FILES / "alerts.yml"))
    done = subprocess.run([promtool, "test", "rules", case], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
