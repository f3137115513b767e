// What is wrong with how a page is laid out: texts on each other, texts cut off, a page too wide.
const found = [];
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width + 1)
  found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${width}`);

const scrolls = (element) => {
  for (let box = element; box; box = box.parentElement) {
    const style = getComputedStyle(box);
    if (/auto|scroll/.test(style.overflowX + style.overflowY)) return true;
  }
  return false;
};
const isHidden = (element) => {
  const style = getComputedStyle(element);
  if (style.visibility === "hidden" || style.display === "none") return true;
  for (let box = element; box; box = box.parentElement)
    if (/inset/.test(getComputedStyle(box).clipPath)) return true;
  return !element.checkVisibility();
};

const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  const element = node.parentElement;
  if (!node.data.trim() || element.closest("symbol, title, script, option") || isHidden(element)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    if (box.width < 1 || box.height < 1) continue;
    texts.push({ text: node.data.trim().slice(0, 40), box, element });
    if (!scrolls(element) && (box.right > width + 1 || box.left < -1))
      found.push(`${JSON.stringify(node.data.trim().slice(0, 40))} goes beyond the window`);
  }
  for (let cut = element; cut && cut !== document.body; cut = cut.parentElement) {
    const style = getComputedStyle(cut);
    if (style.overflowX !== "hidden" || cut.closest("svg")) continue;
    const around = cut.getBoundingClientRect();
    const own = range.getBoundingClientRect();
    if (own.right > around.right + 1 || own.bottom > around.bottom + 1)
      found.push(`${JSON.stringify(node.data.trim().slice(0, 40))} is cut`);
  }
}
for (let i = 0; i < texts.length; i++)
  for (let j = i + 1; j < texts.length; j++) {
    const [a, b] = [texts[i], texts[j]];
    if (a.element === b.element) continue;
    const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (x > 2 && y > 4 && !(scrolls(a.element) !== scrolls(b.element)))
      found.push(`${JSON.stringify(a.text)} and ${JSON.stringify(b.text)} overlap`);
  }
return found.slice(0, 20);
