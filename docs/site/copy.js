// A button on each block that copies what is to be typed: the commands of a console session, the code of Python.
addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight")) {
    const frame = document.createElement("div");
    const button = document.createElement("button");
    frame.className = "copied";
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed(block.textContent));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.replaceWith(frame);
    frame.append(block, button);
  }
});

function typed(text) {
  const prompts = text.startsWith(">>> ") ? [">>>", "..."] : text.startsWith("$ ") ? ["$", ">"] : [];
  if (!prompts.length) return text;
  const lines = text.split("\n").filter((line) => prompts.includes(line.split(" ", 1)[0]));
  return lines.map((line) => line.replace(/^\S+ ?/, "")).join("\n") + "\n";
}
