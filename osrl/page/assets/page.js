// @ts-check
// The live part of a study's page. The server renders everything; this module asks for the page again when the log
// has grown, and brings what has changed into the nodes that are shown. Nodes marked data-mine belong to it.

const html = document.documentElement;
const study = html.dataset.study;
const api = html.dataset.api ?? "";
const live = /** @type {HTMLElement} */ (document.getElementById("live"));
const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));

const PERIOD = 500; // ms between two updates, at least
const AGAIN = 1000; // ms before the next attempt to connect, or to ask for what is still being computed
const SELDOM = 8000; // ms between two such questions, at most: each waits twice as long as the one before

/** By how much the clock of the server is ahead, in ms. */
let ahead = 0;
let ended = false;
let asking = false;
let wanted = false;
/** @type {number | undefined} */
let timer;
let asked = 0;
let patience = AGAIN;
/** @type {number | undefined} */
let later;

/** @param {string} text @param {boolean} on */
function sayLive(text, on) {
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("on", on);
}

/** @param {string | null} text */
function sayBanner(text) {
  banner.hidden = text === null;
  if (text !== null && banner.textContent !== text) banner.textContent = text;
}

/** What two nodes must share to be one. @param {Node} node */
function identity(node) {
  if (!(node instanceof Element)) return node.nodeName;
  return `${node.nodeName} ${node.id} ${node.getAttribute("data-id") ?? ""} ${node.getAttribute("data-verb") ?? ""}`;
}

/** Bring `from` into the state of `to`, keeping the node. @param {Node} from @param {Node} to */
function morph(from, to) {
  if (from instanceof CharacterData && to instanceof CharacterData) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (!(from instanceof Element) || !(to instanceof Element) || from.hasAttribute("data-mine")) return;
  for (const { name, value } of to.attributes)
    if (from.getAttribute(name) !== value && name !== "open") from.setAttribute(name, value);
  for (const { name } of [...from.attributes])
    if (!to.hasAttribute(name) && name !== "open" && name !== "data-js") from.removeAttribute(name);
  const old = [...from.childNodes];
  let place = 0;
  for (const next of to.childNodes) {
    const name = identity(next);
    const at = old.findIndex((each, i) => i >= place && identity(each) === name);
    if (at < 0) {
      const made = document.importNode(next, true);
      from.insertBefore(made, old[place] ?? null);
      old.splice(place, 0, /** @type {ChildNode} */ (made));
    } else {
      const found = old[at];
      if (at !== place) {
        from.insertBefore(found, old[place]);
        old.splice(at, 1);
        old.splice(place, 0, found);
      }
      morph(found, next);
    }
    place += 1;
  }
  for (const each of old.slice(place)) each.remove();
}

/** @param {Document} page */
function show(page) {
  const main = document.getElementById("main");
  const other = page.getElementById("main");
  if (main === null || other === null) return;
  morph(main, other);
  document.title = page.title;
  for (const name of ["sequence", "now"]) html.dataset[name] = page.documentElement.dataset[name];
  html.toggleAttribute("data-due", page.documentElement.hasAttribute("data-due"));
  setClock();
  askLater();
}

/** Ask again for what is still being computed, if anything is. */
function askLater() {
  if (!html.hasAttribute("data-due")) {
    patience = AGAIN;
    return;
  }
  clearTimeout(later);
  later = setTimeout(refresh, patience);
  patience = Math.min(2 * patience, SELDOM);
}

/** Ask for the page, not more often than every PERIOD, and once more if something comes meanwhile. */
function refresh() {
  wanted = true;
  if (asking || ended || timer !== undefined) return;
  timer = setTimeout(ask, Math.max(0, asked + PERIOD - Date.now()));
}

function ask() {
  timer = undefined;
  asking = true;
  wanted = false;
  asked = Date.now();
  const request = new XMLHttpRequest();
  request.open("GET", location.pathname);
  request.responseType = "document";
  request.setRequestHeader("Accept", "text/html");
  request.onloadend = () => {
    asking = false;
    if (request.status === 200 && request.response) show(request.response);
    else if (request.status === 401 || request.status === 403) end("Your access has ended. Sign in again to go on.");
    else if (request.status === 404) end("This study is no longer there.");
    if (wanted) refresh();
  };
  request.send();
}

/** @param {string} why */
function end(why) {
  ended = true;
  sayBanner(`${why} The numbers below are from before.`);
  sayLive("Not live", false);
}

// One stream for all tabs of a browser: the one that holds the lock listens, and tells the others.

const channel = new BroadcastChannel(`osrl ${api}`);
channel.onmessage = (message) => heard(message.data);

/** @param {{kind: string, reason?: string}} news */
function heard(news) {
  if (ended) return;
  if (news.kind === "log") {
    patience = AGAIN;
    refresh();
  } else if (news.kind === "on") {
    sayBanner(null);
    sayLive("Live", true);
    refresh();
  } else if (news.kind === "off") {
    sayBanner("The connection is lost. The numbers below are from before; trying again …");
    sayLive("Not live", false);
  } else if (news.kind === "end")
    end(news.reason === "access ended" ? "Your access has ended. Sign in again to go on." : "This study is no longer there.");
}

/** @param {{kind: string, reason?: string}} news */
function spread(news) {
  channel.postMessage(news);
  heard(news);
}

function listen() {
  return new Promise(() => {
    /** @param {number} after */
    function connect(after) {
      const stream = new EventSource(`${api}/events?after=${after}`);
      let seen = after;
      stream.onopen = () => spread({ kind: "on" });
      for (const kind of ["ask", "tell", "abandon", "correct", "pause", "continue", "budget", "stage", "close", "recover"])
        stream.addEventListener(kind, (event) => {
          seen = Number(event.lastEventId);
          if (seen > Number(html.dataset.sequence)) spread({ kind: "log" });
        });
      stream.addEventListener("end", (event) => {
        stream.close();
        spread({ kind: "end", reason: JSON.parse(event.data).reason });
      });
      stream.onerror = () => {
        if (ended) return stream.close();
        spread({ kind: "off" });
        if (stream.readyState === EventSource.CLOSED) {
          refresh(); // the answer says whether access has ended
          setTimeout(() => ended || connect(seen), AGAIN);
        }
      };
    }
    connect(Number(html.dataset.sequence));
  });
}

// Ages go on between two updates.

function setClock() {
  ahead = Date.parse(html.dataset.now ?? "") - Date.now();
}

/** @param {number} seconds */
function inWords(seconds) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["days", 86400], ["hours", 3600], ["minutes", 60]]))
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Math.round(seconds)} second${Math.round(seconds) === 1 ? "" : "s"}`;
}

function grow() {
  if (ended) return;
  for (const each of document.querySelectorAll("time[data-age]")) {
    const since = Date.parse(/** @type {HTMLTimeElement} */ (each).dateTime);
    const text = inWords(Math.max(0, (Date.now() + ahead - since) / 1000));
    if (each.textContent !== text) each.textContent = text;
  }
}

// Acting: what is done cannot be undone, so it is confirmed first.

/** @param {string} verb @param {object} body */
async function call(verb, body) {
  const answer = await fetch(`${api}/${verb}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.detail ?? "the server has refused this");
  return said;
}

/** @param {string} question @param {string} effect @returns {Promise<boolean>} */
function confirmed(question, effect) {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("confirm"));
  /** @type {HTMLElement} */ (document.getElementById("question")).textContent = question;
  /** @type {HTMLElement} */ (document.getElementById("effect")).textContent = effect;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}

/** A number, or what stands there. @param {string} text */
function numeral(text) {
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The body of a call, and the question that comes before it. @param {string} verb @param {FormData} form */
function meant(verb, form) {
  /** @param {string} name */
  const of = (name) => String(form.get(name) ?? "").trim();
  if (verb === "ask") {
    const body = { ...(of("task") && { task: of("task") }), ...(of("key") && { key: of("key") }) };
    return { body, question: "" };
  }
  if (verb === "tell")
    return {
      body: { trial: numeral(of("trial")), reward: numeral(of("reward")) },
      question: `Report ${of("reward")} for trial ${of("trial")}?`,
    };
  if (verb === "raise-budget")
    return { body: { budget: Number(of("budget")) }, question: `Allow ${of("budget")} trials in all?` };
  if (verb === "withdraw") {
    const [kind, ...name] = of("which").split(":");
    return { body: { [kind]: name.join(":"), reason: of("reason") }, question: `Withdraw ${name.join(":")}?` };
  }
  if (verb === "add")
    return { body: { [of("kind")]: of("name"), reason: of("reason") }, question: `Add ${of("name")}?` };
  const body = of("reason") ? { reason: of("reason") } : {};
  return { body, question: QUESTIONS[verb] };
}

/** @type {Record<string, string>} */
const QUESTIONS = {
  pause: "Pause the study?",
  resume: "Resume the study?",
  close: "End the study without a decision?",
};
const REPORTED = "A result is kept for good. An owner can correct a slip only as long as nothing has happened since.";
const LOST =
  "It will never report. It counts by its worst result, so that the guarantee holds whatever the reason is; that costs some evidence.";

/** @param {SubmitEvent} event */
async function submitted(event) {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || form.dataset.verb === undefined) return;
  event.preventDefault();
  const verb = form.dataset.verb;
  const output = /** @type {HTMLOutputElement} */ (form.querySelector("output"));
  const { body, question } = meant(verb, new FormData(form));
  if (question && !(await confirmed(question, form.dataset.effect ?? REPORTED))) return;
  try {
    const said = await call(verb, body);
    output.className = "";
    output.textContent =
      verb === "ask" ? `Trial ${said.trial}: ${said.representation}, ${said.predictor} in ${said.task}` : "Done.";
    if (verb !== "ask") form.reset();
    refresh();
  } catch (error) {
    output.className = "bad";
    output.textContent = error instanceof Error ? error.message : String(error);
  }
}

/** @param {MouseEvent} event */
async function clicked(event) {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (button === null) return;
  if (button.id === "verify") return verify(button);
  const { trial, tell, about } = button.dataset;
  if (trial === undefined) return;
  const verb = tell === undefined ? "abandon" : "tell";
  const question = tell === undefined ? `Is ${about} lost?` : `Report ${tell === "1" ? "success" : "failure"} for ${about}?`;
  if (!(await confirmed(question, tell === undefined ? LOST : REPORTED))) return;
  try {
    await call(verb, tell === undefined ? { trial } : { trial, reward: Number(tell) });
  } catch (error) {
    sayBanner(error instanceof Error ? error.message : String(error));
  }
  refresh();
}

/** @param {HTMLButtonElement} button */
async function verify(button) {
  const output = /** @type {HTMLElement} */ (document.getElementById("verified"));
  button.disabled = true;
  output.textContent = "The log is being replayed …";
  try {
    const answer = await fetch(`${api}/verify`);
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    const when = new Date().toLocaleTimeString();
    output.textContent = said.ok
      ? `At ${when}: everything follows from the log (${said.events.toLocaleString("en")} events).`
      : `At ${when}: the log does not verify: ${said.problems[0]}`;
  } catch (error) {
    output.textContent = error instanceof Error ? error.message : String(error);
  }
  button.disabled = false;
}

if (study !== undefined) {
  html.dataset.js = "";
  setClock();
  setInterval(grow, 1000);
  addEventListener("submit", (event) => void submitted(event));
  addEventListener("click", (event) => void clicked(event));
  sayLive("Connecting …", false);
  void navigator.locks.request(`osrl ${api}`, { ifAvailable: true }, (lock) => {
    if (lock === null) heard({ kind: "on" }); // another tab listens
    return null;
  });
  void navigator.locks.request(`osrl ${api}`, listen);
  askLater();
}
