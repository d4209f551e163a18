// What can be done about alerts: silence them, end a silence, and decide rules.

import { actions, type Action, type Field } from "./actions.svelte";
import { conditionWords, METRICS, UNITS } from "./alerts";
import { fetchRule } from "./api";
import { boot } from "./boot";
import type { AlertMetric, Rule, Silence } from "./entities.generated";
import { byName, clock, plural } from "./format";
import { store } from "./store.svelte";

const ALL = { value: "", label: "all" };
const rulesOffered = (): Field["options"] => [ALL, ...[...store.entities.rule.values()].sort((a, b) => byName(a.name, b.name)).map((row) => ({ value: row.name, label: row.name }))];
/** All topologies, and the one that is chosen, which may be gone. */
const topologiesOffered = (chosen = ""): Field["options"] => {
  const names = new Set([...store.entities.topology.keys(), ...(chosen ? [chosen] : [])]);
  return [ALL, ...[...names].sort(byName).map((name) => ({ value: name, label: name }))];
};
const LENGTHS = [["1800", "30 minutes"], ["3600", "1 hour"], ["7200", "2 hours"], ["28800", "8 hours"], ["86400", "1 day"], ["604800", "7 days"]].map(([value, label]) => ({ value: value!, label: label! }));

/** Why the user may not decide rules, or the empty string. */
export const notAdministrator = (): string => (boot.role === "administrator" ? "" : "Only administrators can change rules.");

export function silence(of: { rule?: string; topology?: string } = {}): void {
  actions.ask({
    title: "Silence alerts",
    verb: "Silence",
    path: "silences/",
    edit: "create",
    explain: "Webhooks get no messages about these alerts during this time. Rules are still checked, and this page shows the alerts as silenced. Alerts that still fire at the end are sent then.",
    consequences: [],
    fields: [
      { name: "rule", label: "Rule", kind: "select", value: of.rule ?? "", options: rulesOffered() },
      { name: "topology", label: "Topology", kind: "select", value: of.topology ?? "", options: topologiesOffered() },
      { name: "seconds", label: "Duration", kind: "select", value: "7200", options: LENGTHS },
    ],
    // How long, and not until when: what is sent again under the same key must be the same.
    asked: ({ rule, topology, seconds }) => ({ rule, topology, seconds: Number(seconds) }),
  });
}

export function endSilence(row: Silence): void {
  const covered = [...store.entities.alert.values()].filter((alert) => alert.silence === row.id && alert.state === "firing");
  actions.ask({
    title: `End the silence of ${row.rule || "all rules"}, ${row.topology || "all topologies"}`,
    verb: "End silence",
    path: `silences/${row.id}/end/`,
    edit: "create",
    explain: `Without this it ends at ${clock(row.until, store.now)}. Alerts that still fire are sent to webhooks within seconds.`,
    consequences: covered.length ? [{ title: `${plural(covered.length, "alert fires", "alerts fire")} now`, items: covered.map((alert) => `${alert.rule} ${alert.subject}`), tone: "warn" }] : [],
  });
}

function ruleFields(rule: Rule | null): Field[] {
  return [
    { name: "comparison", label: "Fires when the value is", kind: "select", value: rule?.comparison ?? "above", options: [{ value: "above", label: "above the threshold" }, { value: "below", label: "below the threshold" }] },
    { name: "threshold", label: rule ? `Threshold (${UNITS[METRICS[rule.metric].unit]})` : "Threshold (in the unit of the metric; a share as 0.95)", kind: "number", value: String(rule?.threshold ?? 30) },
    { name: "held", label: "Fires after (seconds)", kind: "number", value: String(rule?.held ?? 60) },
    { name: "calm", label: "Ends after (seconds)", kind: "number", value: String(rule?.calm ?? 30) },
    { name: "severity", label: "Severity", kind: "select", value: rule?.severity ?? "warning", options: [{ value: "warning", label: "warning" }, { value: "critical", label: "critical" }] },
    { name: "missing", label: "If there is no data", kind: "select", value: rule?.missing ?? "show", options: [{ value: "show", label: "show it only" }, { value: "fire", label: "fire" }] },
    { name: "topology", label: "Topology", kind: "select", value: rule?.topology ?? "", options: topologiesOffered(rule?.topology) },
    ...(rule && !METRICS[rule.metric].byPriority ? [] : [{ name: "priority", label: "Lowest priority of queries", kind: "number" as const, value: String(rule?.priority ?? 1) }]),
    { name: "runbook", label: "Runbook (a text or a URL)", kind: "area", value: rule?.runbook ?? "", optional: true },
  ];
}

const numbers = (given: Record<string, string>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, ["threshold", "held", "calm", "priority"].includes(name) ? Number(value) : value]));

export function addRule(): void {
  actions.ask({
    title: "New alert rule",
    verb: "Create",
    path: "alert-rules/",
    edit: "create",
    explain: "It is checked every five seconds. Name and metric cannot be changed later.",
    consequences: [],
    fields: [
      { name: "name", label: "Name (small letters, digits and -)", kind: "text", value: "" },
      { name: "metric", label: "Metric", kind: "select", value: "lag", options: (Object.keys(METRICS) as AlertMetric[]).map((one) => ({ value: one, label: METRICS[one].title })) },
      ...ruleFields(null),
    ],
    asked: numbers,
  });
}

/** Asks about a rule as it is now; what is decided holds only for that. */
function askAboutRule({ name }: Rule, about: (rule: Rule) => Omit<Action, "path" | "tag">): void {
  void actions.askAbout(`Open the rule ${name}`, () => fetchRule(name), ({ rule, tag }) => ({ ...about(rule), path: `alert-rules/${name}/`, tag }));
}

export function editRule(shown: Rule): void {
  askAboutRule(shown, (rule) => ({
    title: `Change the rule ${rule.name}`,
    verb: "Change",
    edit: "change",
    explain: `Now: ${conditionWords(rule)}. The new values also hold for open alerts.`,
    consequences: [],
    fields: ruleFields(rule),
    asked: numbers,
  }));
}

const endingWith = (rule: Rule): { title: string; items: string[]; tone: "warn" }[] => {
  const alerts = [...store.entities.alert.values()].filter((alert) => alert.rule === rule.name && alert.state === "firing");
  return alerts.length ? [{ title: `${plural(alerts.length, "alert ends", "alerts end")}`, items: alerts.map((alert) => alert.subject), tone: "warn" }] : [];
};

export function switchRule(shown: Rule): void {
  askAboutRule(shown, (rule) => ({
    title: `Switch the rule ${rule.name} ${rule.enabled ? "off" : "on"}`,
    verb: rule.enabled ? "Switch off" : "Switch on",
    edit: "change",
    body: { enabled: !rule.enabled },
    explain: rule.enabled ? "It is not checked until it is switched on again." : `${conditionWords(rule)}: checked every five seconds from now on.`,
    consequences: rule.enabled ? endingWith(rule) : [],
  }));
}

export function deleteRule(shown: Rule): void {
  askAboutRule(shown, (rule) => ({
    title: `Delete the rule ${rule.name}`,
    verb: "Delete",
    edit: "remove",
    explain: "Alerts that have ended stay in the history.",
    consequences: endingWith(rule),
    danger: true,
  }));
}

