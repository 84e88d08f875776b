// What HTML and htmx cannot do: the live timeline, copying, and keys. Everything else works without it.
"use strict";

(() => {
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // --- the live timeline: the browser reconnects by itself and says which event it saw last ---------------------------
  const MOST = 500;
  const follow = (sign) => {
    const list = one("#timeline");
    const source = new EventSource(sign.dataset.live);
    source.onopen = () => { sign.textContent = sign.dataset.on; sign.classList.add("on"); };
    source.onerror = () => { sign.textContent = sign.dataset.off; sign.classList.remove("on"); };
    source.onmessage = (message) => {
      if (document.getElementById(`e${message.lastEventId}`)) return;
      // The server escaped it: the same template drew the rows that came with the page.
      list.insertAdjacentHTML("afterbegin", message.data);
      window.htmx.process(list.firstElementChild);
      one("#nothing")?.remove();
      const head = one("#head");
      if (head) head.textContent = Number(message.lastEventId).toLocaleString("en");
      if (list.children.length > MOST) list.querySelector(":scope > .event:nth-last-of-type(2)")?.remove();
    };
    window.addEventListener("pagehide", () => source.close());
  };

  // --- copying -------------------------------------------------------------------------------------------------------
  const copy = async (link) => {
    const said = one("#copied");
    try {
      const answer = await fetch(link.href, { headers: { "HX-Request": "true" } });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      await navigator.clipboard.writeText(text);
      said.textContent = `${link.textContent}: ${link.dataset.done}`;
    } catch (error) {
      said.textContent = `${link.dataset.failed}: ${String(error.message).slice(0, 200)}`;
    }
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-copy]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      copy(link);
      return;
    }
    // A click anywhere in a line of the payload asks for its cause, unless it marks text.
    const line = event.target.closest(".ln");
    if (line && !event.target.closest("a") && !String(window.getSelection())) one("a.by", line)?.click();
  });

  // --- keys ----------------------------------------------------------------------------------------------------------
  const step = (by) => {
    const rows = all("a.row").filter((row) => row.offsetParent !== null);
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    "/": () => one("#search")?.focus(),
    j: () => step(1),
    k: () => step(-1),
    "[": () => one("a[rel=prev]")?.click(),
    "]": () => one("a[rel=next]")?.click(),
    w: () => one("#why")?.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // On a narrow page the explanation may be out of sight.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "why") event.target.closest(".asking").scrollTop = 0;
  });

  const sign = one("#live");
  if (sign) follow(sign);
})();
