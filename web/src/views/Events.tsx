import * as format from "../lib/format";
import { plain } from "../lib/text";
import { filtered, momentOf } from "../state/events";
import { formatView } from "../state/view";
import type { EventRecord, Level } from "../wire/types.gen";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { Icon } from "./Icon";
import { Name } from "./Name";

const SHOWN = 500;

/** All events, newest first; each leads to its path and its moment in the charts. */
export function Events() {
  const page = usePage();
  const { severity, kind, words, path } = page.view.value;
  const { events } = page.model.value;
  if (events.length === 0) {
    return (
      <Empty title="Nothing happened">
        Lost ranks, restarts and your own <code>mon.event(…)</code> are listed here.
      </Empty>
    );
  }
  const kinds = [...new Set([...events.map((event) => event.kind), ...(kind === "" ? [] : [kind])])].sort();
  const isCut = events.some((event) => event.kind === "events dropped");
  const shown = filtered(events, { severity, kind, path, words }).reverse();
  return (
    <section class="panel" aria-label="Events">
      <header class="panel-head">
        <h2>Events</h2>
        <label class="field">
          <span>severity</span>
          <select value={severity} onChange={(event) => page.show({ severity: levelOf(event.currentTarget.value) }, true)}>
            <option value="info">all</option>
            <option value="warn">warnings and worse</option>
            <option value="critical">critical</option>
          </select>
        </label>
        <label class="field">
          <span>class</span>
          <select value={kind} onChange={(event) => page.show({ kind: event.currentTarget.value }, true)}>
            <option value="">all</option>
            {kinds.map((name) => (
              <option key={name} value={name}>
                {plain(name)}
              </option>
            ))}
          </select>
        </label>
        <label class="field is-search is-narrow">
          <Icon name="search" />
          <input type="search" placeholder="rank, host, words" aria-label="Search events" value={words} onInput={(event) => page.show({ words: event.currentTarget.value })} />
        </label>
        <span class="panel-note">
          {shown.length} of {events.length} · times in {format.zone()}
          {isCut && " · older ones are in events.jsonl of the run folder"}
        </span>
      </header>
      {shown.length === 0 ? (
        <Empty title="No event matches">Widen severity, class, path or search.</Empty>
      ) : (
        <ol class="events">
          {shown.slice(0, SHOWN).map((event) => (
            <EventRow key={event.id} event={event} />
          ))}
        </ol>
      )}
    </section>
  );
}

function levelOf(text: string): Level {
  return text === "critical" || text === "warn" ? text : "info";
}

function EventRow({ event }: { event: EventRecord }) {
  const page = usePage();
  const moment = momentOf(event, page.view.value.x, page.run.value?.started_at ?? 0);
  return (
    <li class={`event is-${event.severity} ${event.active ? "is-active" : ""}`}>
      <Icon name={event.severity} />
      <time class="figure" title={format.moment(event.time)}>
        {format.when(event.time)}
      </time>
      <span class="event-kind">
        <Name text={event.kind} />
      </span>
      <span class="event-text">
        <bdi>{plain(event.text)}</bdi>
        {event.count > 1 && <span class="tag">× {format.count(event.count)}</span>}
        {event.active && <span class="tag is-warn">{page.isOver.value ? "to the end" : "still so"}</span>}
      </span>
      <a
        class="path-link"
        title="Show this moment in the charts"
        href={formatView({ ...page.view.value, ...moment })}
        onClick={(click) => {
          if (click.ctrlKey || click.metaKey || click.shiftKey) return;
          click.preventDefault();
          page.show(moment, true);
        }}
      >
        <Name text={event.path} />
      </a>
    </li>
  );
}
