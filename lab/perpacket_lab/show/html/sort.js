// Sorts a table by a column when its heading is pressed. The page reads the same without it.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, "en", { numeric: true });
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => (ascending ? compare(a, b) : compare(b, a)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
