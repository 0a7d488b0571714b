"use strict";
// Shows what the server answers, live. What others wrote (ids, reasons, logs, results) becomes text and nothing else:
// no markup is ever made of a string. An answer is data, a refusal, or unknown, and each looks different.
(() => {
  const content = document.getElementById("content");
  const status = document.getElementById("status");
  const PAGE = 50;
  const LINES = 5000;

  // ---- elements

  const h = (tag, given = {}, ...inside) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    made.append(...inside.flat(2).filter((each) => each !== undefined && each !== null && each !== ""));
    return made;
  };

  const svg = (tag, given) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
    return made;
  };

  /** A sentence in which `commands` are set apart. */
  const prose = (text) => String(text).split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

  const empty = (title, ...advice) => h("div", { class: "empty" }, h("b", {}, title), ...advice);

  const trouble = (answer) => answer.unknown !== undefined
    ? h("p", { class: "note unknown" }, h("b", {}, "Unknown: "), prose(answer.unknown))
    : h("p", { class: "note" }, prose(answer.error));

  const focusKey = () => document.activeElement && document.activeElement.getAttribute("data-key");

  const shown = new WeakMap();

  /** Draw an answer in its place if it is another one than before, and leave the focus where it was. */
  const put = (place, answer, draw) => {
    const text = JSON.stringify(answer);
    if (shown.get(place) === text) return;
    shown.set(place, text);
    const key = place.contains(document.activeElement) ? focusKey() : null;
    place.replaceChildren(...[answer.data === undefined ? trouble(answer) : draw(answer.data)].flat());
    if (key) [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
  };

  // ---- answers

  const answered = async (request) => {
    try {
      const response = await request;
      const body = await response.json();
      if (response.ok) return { data: body };
      return body.unknown !== undefined ? { unknown: body.unknown } : { error: body.error };
    } catch {
      return { unknown: "`perago ui` does not answer; if it has ended, start it again and open the new address" };
    }
  };

  const address = (name, query) => `api/${name}?${new URLSearchParams(query)}`;
  const ask = (name, query = {}) => answered(fetch(address(name, query)));
  const act = (name, query) => answered(fetch(address(name, query), { method: "POST" }));

  // ---- words

  const STATES = {
    COMPLETED: "good", RUNNING: "busy", IN_PROGRESS: "busy", PAUSED: "warn", SCHEDULED: "plain", TERMINATED: "plain", CANCELED: "plain",
    FAILED: "bad", FAILED_WITH_TERMINAL_ERROR: "bad", TIMED_OUT: "warn",
  };
  // What became of a publication of which no commit on the branch tells.
  const ASIDE = {
    superseded: "another publication took it over, or its place",
    suppressed: "another attempt of its task was accepted",
    "not published": "refused, or given up: nothing was published",
    "rolled back": "published, never accepted, and taken back",
    "accepted lost": "accepted, and not on the branch when it was looked for",
  };
  const ENDINGS = { accepted: "good", "rolled forward": "good", "accepted lost": "bad", abandoned: "bad" };
  const STANDINGS = {
    accepted: "good", "never accepted": "bad", unknown: "unknown", "no record": "plain",
    "under way": "busy", "never accepted, and kept by a person": "bad", "a stranger's": "warn", "before the first accepted result": "plain",
  };
  const manner = (state) => STATES[state] ?? "unknown";
  const plain = (state) => state.replaceAll("_", " ").toLowerCase();
  const pill = (kind, text) => h("span", { class: `pill ${kind}` }, text);
  const statePill = (state) => pill(manner(state), plain(state));

  /** How far the server's clock is ahead of this one. */
  let ahead = 0;
  const now = () => Date.now() + ahead;

  const duration = (milliseconds) => {
    const seconds = Math.max(0, milliseconds) / 1000;
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= 2 * size) return `${(seconds / size).toFixed(1)} ${unit}`;
    }
    return `${seconds.toFixed(0)} s`;
  };

  /** How long something took; what has not ended goes on counting. */
  const took = (from, to) => !from ? "" : h("span", to ? {} : { "data-since": from }, duration((to || now()) - from));

  const clock = (at) => {
    if (!at) return "";
    const moment = new Date(at);
    const two = (number) => String(number).padStart(2, "0");
    const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
    const time = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
    return h("time", { datetime: moment.toISOString() }, `${day} ${time}`);
  };

  const toRun = (run, task) => `#/run/${encodeURIComponent(run)}${task ? `/${encodeURIComponent(task)}` : ""}`;
  const ref = (text) => h("span", { class: "ref", title: text }, String(text ?? "").slice(0, 12));

  // ---- going about

  let visit = 0;
  let about = null;

  /** Look again and again while this visit lasts; `look` returns the seconds until it should, or nothing to stop. */
  const live = async (mine, look) => {
    while (mine === visit) {
      const asked = performance.now();
      const pause = await look();
      if (!pause) return;
      // What takes long to answer is asked for seldom.
      const long = 5 * (performance.now() - asked);
      await new Promise((go) => { setTimeout(go, Math.max(pause * 1000, long)); });
      while (document.hidden && mine === visit) await new Promise((go) => { setTimeout(go, 500); });
    }
  };

  const heading = (title, ...more) => {
    document.title = `${title} · Perago`;
    return h("h1", { tabindex: "-1" }, title, ...more);
  };

  const route = async () => {
    visit += 1;
    const mine = visit;
    if (about === null) {
      const answer = await ask("project");
      if (mine !== visit) return;
      if (answer.data === undefined) { content.replaceChildren(trouble(answer)); return; }
      about = answer.data;
      ahead = about.now - Date.now();
      document.getElementById("project").textContent = about.project;
      document.getElementById("mode").textContent = about.actions ? "may cancel and retry" : "read only";
    }
    const [path, query] = (location.hash.replace(/^#\/?/, "") || "").split("?");
    const [name, ...rest] = path.split("/").map(decodeURIComponent);
    const views = { run: runView, branch: branchView, cluster: clusterView };
    const view = views[name] ?? runsView;
    const current = { run: "runs", branch: "branch", cluster: "cluster" }[name] ?? "runs";
    for (const link of document.querySelectorAll("[data-nav]")) {
      if (link.dataset.nav === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    view(mine, rest, new URLSearchParams(query ?? ""));
    scrollTo(0, 0);
    status.textContent = document.title;
  };

  const say = (words) => { status.textContent = words; };

  // ---- the runs

  const runsView = (mine, _rest, query) => {
    const skip = Number(query.get("skip") ?? 0) || 0;
    const [pipeline, state] = [query.get("pipeline") ?? "", query.get("state") ?? ""];
    const place = h("div", { "aria-busy": "true" });
    const said = h("div");
    const goTo = (changes) => {
      const wanted = new URLSearchParams(Object.entries({ pipeline, state, ...changes }).filter(([, value]) => value));
      location.hash = `#/?${wanted}`;
    };
    const find = async (event) => {
      event.preventDefault();
      const what = event.target.elements.what.value.trim();
      if (!what) { goTo({ pipeline: "" }); return; }
      const named = await ask("runs", { pipeline: what, limit: 1 });
      if (named.data?.runs.length) { goTo({ pipeline: what }); return; }
      const answer = await ask("find", { what });
      if (mine !== visit) return;
      if (answer.data) location.hash = toRun(answer.data.workflow_id, answer.data.task);
      else said.replaceChildren(trouble(answer));
    };
    const choice = h("select", { "aria-label": "State", onchange: (event) => goTo({ state: event.target.value }) },
      h("option", { value: "" }, "any state"),
      about.states.map((each) => h("option", { value: each, selected: each === state }, plain(each))));
    content.replaceChildren(
      heading("Runs"),
      h("form", { class: "filter", role: "search", onsubmit: find },
        h("input", { name: "what", type: "search", list: "pipelines", value: pipeline, placeholder: "pipeline, run, step or task",
          "aria-label": "Pipeline, run, step or task", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" }),
        h("datalist", { id: "pipelines" }, about.pipelines.map((each) => h("option", { value: each }))),
        choice),
      said, place,
    );
    const wanted = { pipeline, state, skip, limit: PAGE };
    const draw = (data) => data.runs.length ? runsTable(data, (to) => goTo({ skip: to || "" })) : noRuns(pipeline || state || skip);
    live(mine, async () => {
      const answer = await ask("runs", wanted);
      if (mine !== visit) return 0;
      place.removeAttribute("aria-busy");
      put(place, answer, draw);
      return skip ? 10 : 2;
    });
  };

  const noRuns = (filtered) => filtered
    ? empty("There is no such run", h("a", { href: "#/" }, "Show all runs"))
    : empty("No run yet", ...prose(`\`perago run ${about.pipelines[0] ?? "NAME"}\` starts one; it appears here at once.`));

  const runsTable = (data, goTo) => {
    const row = (run) => {
      const begin = run.workflow_id.startsWith(`${run.name}-`) ? run.name : "";
      const name = begin ? [h("b", {}, begin), h("span", {}, run.workflow_id.slice(begin.length))] : [h("b", {}, run.name), " ", h("span", {}, run.workflow_id)];
      const meter = h("span", { class: `meter ${manner(run.status)}`, "aria-hidden": "true" }, h("i"));
      meter.firstChild.style.width = `${run.steps ? 100 * run.done / run.steps : 0}%`;
      const steps = run.steps ? [meter, `${run.done}/${run.steps}`] : [`${run.done} done`];
      return h("tr", {},
        h("td", {}, h("a", { class: "id", href: toRun(run.workflow_id), "data-key": run.workflow_id }, name)),
        h("td", {}, statePill(run.status)),
        h("td", { class: "when" }, clock(run.started_at)),
        h("td", { class: "num" }, took(run.started_at, run.ended_at)),
        h("td", {}, h("span", { class: "steps" }, steps)));
    };
    const table = h("table", { class: "runs" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "run"), h("th", { scope: "col" }, "state"), h("th", { scope: "col" }, "started"),
        h("th", { scope: "col", class: "num" }, "took"), h("th", { scope: "col" }, "steps"))),
      h("tbody", {}, data.runs.map(row)));
    const pages = data.skip || data.more ? h("div", { class: "pages" },
      h("span", { class: "soft" }, `${data.skip + 1} to ${data.skip + data.runs.length}`),
      h("button", { type: "button", "data-key": "newer", disabled: !data.skip, onclick: () => goTo(Math.max(0, data.skip - PAGE)) }, "Newer"),
      h("button", { type: "button", "data-key": "older", disabled: !data.more, onclick: () => goTo(data.skip + PAGE) }, "Older")) : null;
    return [table, pages].filter(Boolean);
  };

  // ---- one run

  const runView = (mine, [run, task]) => {
    const places = Object.fromEntries(["top", "gantt", "attempt", "results"].map((each) => [each, h("section")]));
    let chosen = task ?? "";
    let last = null;
    let settled = "";
    const logs = logOf(mine, run, () => chosen);
    const choose = (id) => {
      chosen = id;
      settled = "";
      history.replaceState(null, "", toRun(run, id));
      draw();
      logs.redraw();
    };
    const draw = () => {
      if (last === null) return;
      const attempt = last.attempts.find((each) => each.task_id === chosen) ?? last.attempts.at(-1);
      chosen = attempt?.task_id ?? "";
      // While it runs the bars grow.
      const second = last.running ? Math.round(now() / 1000) : 0;
      put(places.gantt, { data: { attempts: last.attempts, chosen, steps: last.steps, second } }, (data) => gantt(data, choose));
      explain(attempt);
    };
    const explain = async (attempt) => {
      if (!attempt) { places.attempt.replaceChildren(); return; }
      const about_it = JSON.stringify([attempt, last.status]);
      if (settled === about_it) return;
      settled = about_it;
      const answer = await ask("explain", { task: attempt.task_id });
      if (mine === visit && attempt.task_id === chosen) put(places.attempt, { data: { attempt, answer } }, attemptPanel);
    };
    content.replaceChildren(heading(run), places.top, places.gantt, places.attempt, places.results, logs.place, timelineOf(run));
    live(mine, async () => {
      const answer = await ask("run", { run });
      if (mine !== visit) return 0;
      if (answer.data === undefined) {
        put(places.top, answer);
        return answer.unknown === undefined ? 0 : 3;
      }
      last = answer.data;
      ahead = last.now - Date.now();
      const { now: _moment, ...steady } = last;
      put(places.top, { data: steady }, (data) => runTop(data, route));
      put(places.results, { data: last.output }, results);
      draw();
      logs.heard(last);
      return last.running ? 1 : 5;
    });
  };

  const runTop = (run, changed) => {
    const said = h("div");
    const button = (verb, kind, question, after) => h("button", { type: "button", class: kind, "data-key": verb, onclick: async (event) => {
      if (!await sure(question, plain(event.target.textContent))) return;
      event.target.disabled = true;
      const answer = await act(verb, { run: run.workflow_id });
      if (answer.data) { await changed(); say(after); return; }
      event.target.disabled = false;
      said.replaceChildren(trouble(answer));
    } }, verb === "cancel" ? "Cancel" : "Retry");
    const actions = !about.actions ? [] : run.running
      ? [button("cancel", "danger", `End ${run.workflow_id}? Its attempts are refused from now on; what was accepted stays.`, "It was cancelled")]
      : run.status === "COMPLETED" ? []
        : [button("retry", "primary", `Go on with ${run.workflow_id} from the step at which it stopped? What was accepted stays.`, "It goes on as soon as a worker takes it")];
    return [
      h("div", { class: "head" }, statePill(run.status), h("span", { class: "soft" }, run.name), h("div", { class: "actions" }, actions)),
      h("p", { class: "facts" },
        h("span", {}, "started ", h("b", {}, clock(run.started_at))),
        h("span", {}, run.running ? "for " : "took ", h("b", {}, took(run.started_at, run.ended_at))),
        run.target ? h("span", {}, "to ", h("a", { href: `#/branch/${encodeURIComponent(run.target)}` }, run.target)) : null),
      run.reason ? h("p", { class: run.running ? "note" : "note bad" }, h("b", {}, "Reason: "), run.reason) : null,
      h("p", { class: "note" }, h("b", {}, "Next: "), prose(run.next)),
      said,
    ].filter(Boolean);
  };

  /** Ask once more before something changes. */
  const sure = (question, verb) => new Promise((done) => {
    const dialog = h("dialog", { "aria-label": question, onclose: () => { dialog.remove(); done(dialog.returnValue === "yes"); } },
      h("form", { method: "dialog" }, h("p", {}, question),
        h("div", { class: "actions" }, h("button", { value: "no" }, "No"), h("button", { value: "yes", class: "primary" }, `Yes, ${verb}`))));
    document.body.append(dialog);
    dialog.showModal();
  });

  const gantt = ({ attempts, chosen, steps }, choose) => {
    const begun = attempts.filter((each) => each.started_at);
    const from = Math.min(...begun.map((each) => each.started_at));
    const ends = begun.map((each) => each.ended_at || now());
    const length = Math.max(1, Math.max(...ends) - from);
    const row = (each) => {
      const bar = h("span", { class: `bar ${manner(each.status)}` });
      if (each.started_at) {
        bar.style.left = `${Math.min(99.5, 100 * (each.started_at - from) / length)}%`;
        bar.style.width = `${100 * ((each.ended_at || now()) - each.started_at) / length}%`;
      } else bar.hidden = true;
      return h("li", {}, h("button", { type: "button", "data-key": each.task_id, "aria-pressed": String(each.task_id === chosen), onclick: () => choose(each.task_id),
        title: `${each.step}, attempt ${each.number}: ${plain(each.status)}` },
        h("span", { class: "name" }, each.step, " ", h("small", {}, `attempt ${each.number}`)),
        h("span", { class: "track" }, bar),
        h("span", { class: "num" }, each.started_at ? took(each.started_at, each.ended_at) : plain(each.status)),
        h("span", { class: "unseen" }, plain(each.status))));
    };
    const seen = new Set(attempts.map((each) => each.step));
    const waiting = steps.filter((each) => !seen.has(each)).map((each) => h("li", {}, h("div", { class: "waiting" },
      h("span", { class: "name" }, each), h("span", { class: "track" }), h("span", { class: "num" }, "not begun"))));
    const ticks = [0, 1, 2, 3, 4].map((at) => {
      const tick = h("span", {}, duration(length * at / 4));
      tick.style.left = `${25 * at}%`;
      return tick;
    });
    if (!attempts.length && !waiting.length) return empty("No step has begun");
    return [
      h("h2", {}, "Steps", h("small", {}, "choose an attempt to see what is known about it")),
      h("div", { class: "gantt" },
        begun.length ? h("div", { class: "axis", "aria-hidden": "true" }, h("span"), h("span", { class: "ticks" }, ticks), h("span")) : null,
        h("ol", {}, attempts.map(row), waiting)),
    ];
  };

  const attemptPanel = ({ attempt, answer }) => h("div", { class: "panel" },
    h("h3", {}, `${attempt.step}, attempt ${attempt.number}`, statePill(attempt.status)),
    h("dl", {},
      attempt.reason ? [h("dt", {}, "reason"), h("dd", {}, attempt.reason)] : null,
      h("dt", {}, "task"), h("dd", { class: "id" }, attempt.task_id),
      attempt.worker ? [h("dt", {}, "worker"), h("dd", { class: "id" }, attempt.worker)] : null,
      attempt.ref ? [h("dt", {}, "commit"), h("dd", { class: "id" }, attempt.ref)] : null),
    h("h3", {}, "What is known"),
    answer.data === undefined ? trouble(answer) : h("dl", { class: "findings" }, answer.data.findings.map((each) => {
      const last = each.source === "so" ? "so" : "";
      return [h("dt", { class: last }, each.source), h("dd", { class: last }, prose(each.says))];
    })));

  const results = (output) => {
    const given = Object.entries(output).filter(([, each]) => each?.result !== undefined && each.result !== null);
    if (!given.length) return [];
    return [h("h2", {}, "Results"), h("div", { class: "panel" }, h("dl", {}, given.map(([step, each]) =>
      [h("dt", {}, step), h("dd", {}, h("pre", {}, JSON.stringify(each.result, null, 1)))])))];
  };

  /** The log of a run: asked for what is new only, and of an attempt that has ended only until it was read to its end. */
  const logOf = (mine, run, chosen) => {
    const box = h("div", { class: "log", role: "log", tabindex: "0", "aria-label": "Log" });
    const only = h("input", { type: "checkbox", onchange: () => redraw() });
    const place = h("section", {}, h("h2", {}, "Log", h("small", {}, h("label", {}, only, " only the chosen attempt"))), box);
    const seen = new Map();
    const over = new Set();
    let lines = [];
    let busy = false;
    const line = (each) => h("div", {}, h("b", {}, `${each.step}.${each.attempt}`), each.line);
    const wanted = (each) => !only.checked || each.task_id === chosen();
    const note = () => lines.length ? null : h("div", { class: "soft" }, "nothing was printed yet");
    const redraw = () => {
      box.replaceChildren(...[note(), ...lines.filter(wanted).map(line)].filter(Boolean));
      box.scrollTop = box.scrollHeight;
    };
    const add = (fresh) => {
      const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      if (!lines.length) box.replaceChildren();
      lines = lines.concat(fresh);
      box.append(...fresh.filter(wanted).map(line));
      while (box.childElementCount > LINES) box.firstElementChild.remove();
      lines = lines.slice(-LINES);
      if (follows) box.scrollTop = box.scrollHeight;
    };
    const heard = async (view) => {
      if (busy) return;
      busy = true;
      try {
        for (let more = true; more && mine === visit;) {
          const open = view.attempts.filter((each) => !over.has(each.task_id));
          if (!open.length) break;
          const answer = await ask("logs", { run, seen: open.map((each) => `${each.task_id}:${seen.get(each.task_id) ?? 0}`).join(",") });
          if (mine !== visit) return;
          if (answer.data === undefined) { box.replaceChildren(trouble(answer)); lines = []; seen.clear(); over.clear(); return; }
          if (answer.data.lines.length) add(answer.data.lines);
          else if (!lines.length) redraw();
          for (const [id, count] of Object.entries(answer.data.seen)) seen.set(id, count);
          more = answer.data.more;
          // A body's last words may be written after its attempt has ended; they are there once its run has, too.
          if (!more && !view.running) open.filter((each) => each.ended_at && now() - each.ended_at > 5000).forEach((each) => over.add(each.task_id));
        }
      } finally { busy = false; }
    };
    return { place, heard, redraw };
  };

  const timelineOf = (run) => {
    const where = `timeline?${new URLSearchParams({ run })}`;
    const frame = h("div");
    const open = async (event) => {
      if (!event.target.open || frame.childElementCount) return;
      const response = await fetch(where).catch(() => null);
      if (response?.ok) frame.replaceChildren(h("iframe", { src: where, title: `Timeline of ${run}` }));
      else frame.replaceChildren(trouble(await answered(response ?? Promise.reject(new Error("no answer")))));
    };
    return h("section", {}, h("h2", {}, "Timeline", h("small", {}, h("a", { href: where, target: "_blank", rel: "noopener" }, "open in a tab of its own"))),
      h("details", { ontoggle: open }, h("summary", {}, "Step through what happened, call by call"), frame));
  };

  // ---- branches

  const branchView = (mine, [named], query) => {
    const target = named || about.targets[0] || "";
    if (!target) {
      content.replaceChildren(heading("Branches"), empty("No pipeline publishes to a branch", ...prose("Declare one in `perago.toml`; `perago init` writes an example.")));
      return;
    }
    const limit = Number(query.get("limit") ?? PAGE) || PAGE;
    const verdict = h("div");
    const place = h("div");
    const kinds = new Map();
    let last = null;
    const others = about.targets.length > 1 ? h("p", { class: "facts" }, about.targets.map((each) =>
      h("a", { href: `#/branch/${encodeURIComponent(each)}`, "aria-current": each === target ? "page" : null }, each))) : null;
    const prove = async (event) => {
      const button = event.target;
      button.disabled = true;
      button.textContent = "Comparing…";
      const answer = await ask("verify", { target });
      if (mine !== visit) return;
      button.disabled = false;
      button.textContent = "Verify";
      verdict.replaceChildren(answer.data === undefined ? trouble(answer) : verdictNote(answer.data));
      kinds.clear();
      for (const each of answer.data?.commits ?? []) kinds.set(each.ref, each.kind);
      shown.delete(place);
      if (last) put(place, last, (data) => branchList(data, kinds, target, limit));
    };
    content.replaceChildren(...[h("div", { class: "head" }, heading(target),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: prove, title: "Prove that every accepted result is there, in order, once, and nothing else" }, "Verify"))),
    others, verdict, place].filter(Boolean));
    live(mine, async () => {
      last = await ask("history", { target, limit });
      if (mine !== visit) return 0;
      put(place, last, (data) => branchList(data, kinds, target, limit));
      return 5;
    });
  };

  const verdictNote = (verdict) => {
    const accepted = verdict.commits.filter((each) => each.kind === "accepted").length;
    return verdict.holds
      ? h("p", { class: "note good", role: "status" }, h("b", {}, "It holds: "), `${accepted} accepted result(s) are there, in order, once, and nothing unaccepted lies between.`)
      : h("div", { class: "note bad", role: "alert" }, h("b", {}, "Broken: "), h("ul", {}, verdict.broken.map((each) => h("li", {}, each))));
  };

  const rail = (twig, first, last) => {
    const drawing = svg("svg", { "aria-hidden": "true" });
    const x = matchMedia("(max-width: 48rem)").matches ? 11 : 19;
    drawing.append(svg("line", { class: "trunk", x1: x, y1: first ? 24 : 0, x2: x, y2: last ? 24 : "100%" }));
    if (twig) drawing.append(svg("path", { class: "twig", d: `M${x} 60C${x} 40 ${x + 22} 44 ${x + 22} 28` }));
    return drawing;
  };

  const whose = (each) => [h("a", { href: toRun(each.workflow_id, each.task) }, each.workflow_id), `, attempt ${each.attempt}`,
    each.settled_by === each.worker ? "" : `; settled by ${each.settled_by}`, each.at ? [" · ", clock(each.at)] : ""];

  const branchList = (data, kinds, target, limit) => {
    const aside = new Map();
    for (const each of data.aside) aside.set(each.before, [...(aside.get(each.before) ?? []), each]);
    const beside = (each, first) => h("li", { class: "aside" }, h("div", { class: "rail" }, rail(true, first), h("span", { class: `dot ${ENDINGS[each.kind] ?? ""}` })),
      h("div", { class: "commit" }, h("div", { class: "line" }, pill(ENDINGS[each.kind] ?? "plain", each.kind), h("span", { class: "text" }, ASIDE[each.kind] ?? "")), h("small", {}, whose(each))));
    const commit = (each, at, first) => {
      const standing = kinds.get(each.ref) ?? each.standing;
      const kind = STANDINGS[standing] ?? "unknown";
      const [subject] = each.message.split("\n");
      return h("li", {}, h("div", { class: "rail" }, rail(false, first, at + 1 === data.commits.length && !data.more), h("span", { class: `dot ${kind}` })),
        h("div", { class: "commit" }, h("div", { class: "line" }, ref(each.ref), pill(kind, standing), h("span", { class: "text" }, subject || "no message")),
          each.reverted_by ? h("small", {}, "reverted by ", ref(each.reverted_by)) : "",
          each.adopted_by ? h("small", {}, `adopted by attempt ${each.adopted_by.attempt}`) : "",
          each.onto ? h("small", {}, "onto ", ref(each.onto), ", published by others meanwhile") : "",
          each.publications.map((publication) => h("small", {},
            publication.kind === standing ? "" : `${publication.kind}: `, publication.movements.every((move) => move.before === move.after) ? "changed nothing: " : "", whose(publication)))));
    };
    const rows = data.commits.flatMap((each, at) => {
      const others = aside.get(each.ref) ?? [];
      return [...others.map((other, place) => beside(other, !at && !place)), commit(each, at, !at && !others.length)];
    });
    const key = (kind, text) => h("li", {}, h("i", { class: `dot ${kind}` }), text);
    return [
      ...data.unknown.map((each) => h("p", { class: "note unknown" }, h("b", {}, "Unknown: "), prose(each))),
      h("ul", { class: "legend", "aria-label": "Legend" }, key("good", "accepted"), key("bad", "never accepted: abandoned, or kept by a person"), key("", "no record in the ledger, or settled without a commit of its own"),
        key("unknown", "unknown")),
      h("ol", { class: "branch" }, rows),
      data.more ? h("p", { class: "pages" }, h("a", { href: `#/branch/${encodeURIComponent(target)}?limit=${2 * limit}` }, "Show more")) : null,
    ].filter(Boolean);
  };

  // ---- the cluster

  const clusterView = (mine) => {
    const card = (title, explained, name, query, draw, seconds) => {
      const place = h("div", {}, h("p", { class: "soft" }, "looking…"));
      live(mine, async () => {
        const answer = await ask(name, query);
        if (mine !== visit) return 0;
        put(place, answer, draw);
        return seconds;
      });
      return h("section", {}, h("h2", {}, title, h("small", {}, explained)), place);
    };
    const parts = Object.entries(about.parts).map(([name, kind]) => h("span", {}, `${name} `, h("b", {}, kind)));
    content.replaceChildren(...[
      heading("Cluster"),
      h("p", { class: "facts" }, parts, h("span", {}, "perago ", h("b", {}, about.version))),
      card("Policy", "how publications are fenced, and who works under it", "policy", {}, policyCard, 5),
      about.targets.map((target) => [
        card(`Lock of ${target}`, "who may move it now, where leases are used", "locks", { target }, lockCard, 5),
        card(`Open intents of ${target}`, "announced in the ledger, and not settled yet", "ledger", { target }, ledgerCard, 5),
        card(`Claims on ${target}`, "which attempt may publish what", "claims", { target }, claimsCard, 30),
      ]),
      card("Audit", "how publications were settled", "audit", {}, auditCard, 30),
    ].flat(2));
  };

  const grid = (heads, rows) => h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((each) => h("td", {}, each)))))));

  const nothing = (...words) => h("p", { class: "empty small" }, words);

  const policyCard = (data) => {
    const decided = data.decision;
    const decision = decided ? h("dl", {},
      h("dt", {}, "backing"), h("dd", {}, h("b", {}, decided.backing), `, since epoch ${decided.epoch}`),
      h("dt", {}, "policy"), h("dd", {}, `${decided.policy}; this project says ${data.policy}`),
      h("dt", {}, "evidence"), h("dd", {}, `${decided.evidence} by ${decided.detector}`),
      decided.why ? [h("dt", {}, "why"), h("dd", {}, decided.why)] : null)
      : h("p", {}, `Nothing is decided yet: the first worker that starts decides. This project says ${data.policy}.`);
    const workers = data.workers.length ? grid(["worker", "epoch", "policy", "state"], data.workers.map((each) =>
      [h("span", { class: "id" }, each.name), String(each.epoch), each.policy, each.behind ? pill("warn", "behind") : each.rests ? pill("plain", "resting") : pill("busy", "at work")]))
      : data.signs_of_life ? nothing("No worker is there. ", ...prose("`perago worker` starts one."))
        : h("p", { class: "note unknown" }, h("b", {}, "Unknown: "), "this coordination store has no leases, so workers show no sign of life.");
    return [h("div", { class: "panel" }, decision), h("h3", {}, "Workers"), workers];
  };

  const lockCard = (data) => data.holder
    ? h("div", { class: "panel" }, h("dl", {}, h("dt", {}, "held by"), h("dd", { class: "id" }, data.holder), h("dt", {}, "lease"), h("dd", { class: "id" }, data.lease),
      data.last ? [h("dt", {}, "token"), h("dd", {}, String(data.last.token))] : null))
    : nothing(data.last ? `Nobody holds it. Token ${data.last.token} was the last, ${data.last.released ? "given back" : "not given back"} by ${data.last.owner}.` : "Nobody has ever held it.");

  const ledgerCard = (data) => data.open.length
    ? h("div", { class: "panel" }, data.open.map((each) => [
      h("h3", {}, h("span", { class: "id" }, each.operation), pill(each.alarm || each.unaccepted ? "bad" : "warn", each.alarm ? "accepted result lost" : each.unaccepted ? "never accepted" : each.ending)),
      h("p", {}, each.reason || "nothing more is known"), h("p", { class: "soft" }, "Next: ", prose(each.next))]))
    : nothing("Nothing is open: every publication is settled.");

  const claimsCard = (data) => data.claims.length
    ? h("details", {}, h("summary", {}, `${data.number} claim(s)${data.number > data.claims.length ? `; ${data.claims.length} are shown` : ""}`),
      grid(["task", "attempt", "on", "tree", "execution"], data.claims.map((each) => [h("a", { href: toRun(each.workflow_id, each.task) }, each.logical_task), String(each.attempt), ref(each.parent),
        each.tree ? ref(each.tree) : "no change", h("span", { class: "id" }, each.execution)])))
    : nothing("There is none: nothing was published, or `gc` has collected them.");

  const auditCard = (data) => [
    ...data.unknown.map((each) => h("p", { class: "note unknown" }, h("b", {}, "Unknown: "), each)),
    data.audit.length ? h("details", {}, h("summary", {}, `${data.number} record(s)${data.number > data.audit.length ? `; the newest ${data.audit.length} are shown` : ""}`),
      grid(["when", "what", "run", "attempt", "branch", "from", "to"], data.audit.flatMap((each) => each.movements.map((move) => [
        clock(each.at), pill(ENDINGS[each.kind] ?? "plain", each.kind), h("a", { href: toRun(each.workflow_id, each.task) }, each.workflow_id), String(each.attempt), move.target, ref(move.before),
        move.after ? ref(move.after) : pill("unknown", "unknown")]))))
      : nothing("There is none: nothing was published yet, or `gc` has collected it."),
  ];

  // ---- what goes on by itself

  setInterval(() => {
    for (const each of document.querySelectorAll("[data-since]")) each.textContent = duration(now() - Number(each.dataset.since));
  }, 1000);
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const field = document.querySelector("[type=search]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });
  route();
})();
