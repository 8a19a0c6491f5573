// Looks at the page in the frame, and reports what a reader would complain about.
addEventListener('load', () => {
  const frame = document.querySelector('iframe');
  const page = frame.contentDocument;
  const view = frame.contentWindow;
  const complain = text => console.error(text);

  const dark = view.matchMedia('(prefers-color-scheme: dark)').matches;
  if (dark !== (frame.dataset.scheme === 'dark')) complain('wrong colour scheme');
  const wide = page.documentElement.scrollWidth;
  if (wide > frame.clientWidth) complain(`the page is ${wide} px wide and overflows`);
  for (const loaded of view.performance.getEntriesByType('resource')) {
    complain(`the page loads ${loaded.name}`);
  }

  // The colours of an element and of its background, and their contrast as defined by WCAG.
  const parts = colour => colour.match(/[\d.]+/g).map(Number);
  const background = element => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = parts(view.getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const luminance = colour => {
    const [r, g, b] = colour.map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dim, bright] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dim + 0.05);
  };
  const check = (element, property, least) => {
    const colour = parts(view.getComputedStyle(element)[property]);
    const found = contrast(colour.slice(0, 3), background(element));
    const text = element.textContent.slice(0, 40);
    if (found < least) {
      complain(`contrast ${found.toFixed(2)}, ${element.localName}.${element.getAttribute('class')} ${text}`);
    }
  };
  const shown = element => element.checkVisibility();
  const letters = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const texts = [...page.body.querySelectorAll('*')].filter(element => shown(element)
    && letters(element) && !['title', 'desc', 'style'].includes(element.localName));
  for (const text of texts) check(text, text.localName === 'text' ? 'fill' : 'color', 4.5);
  for (const line of page.querySelectorAll('.line, .mark')) check(line, 'stroke', 3);
  for (const bar of page.querySelectorAll('.bar')) check(bar, 'fill', 3);

  // Text in drawings must be inside the drawing, large enough, and not overlap other text.
  const plots = [...page.querySelectorAll('svg.plot')].filter(shown);
  for (const plot of plots) {
    const name = plot.getAttribute('aria-label');
    const edge = plot.getBoundingClientRect();
    const boxes = [...plot.querySelectorAll('text')].map(text => ({
      text, box: text.getBoundingClientRect(), over: text.classList.contains('halo'),
    }));
    for (const {text, box} of boxes) {
      if (box.left < edge.left - 1 || box.right > edge.right + 1
        || box.top < edge.top - 1 || box.bottom > edge.bottom + 1) {
        complain(`${name}: "${text.textContent}" leaves the drawing`);
      }
      const size = parseFloat(view.getComputedStyle(text).fontSize) * edge.width / plot.viewBox.baseVal.width;
      if (size < 10) complain(`${name}: "${text.textContent}" is ${size.toFixed(1)} px high`);
    }
    boxes.forEach(({text, box, over}, index) => {
      for (const other of boxes.slice(0, index)) {
        if (over || other.over) continue;
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (across > 1 && down > 2) {
          complain(`${name}: "${text.textContent}" overlaps "${other.text.textContent}"`);
        }
      }
    });
  }
  console.log(`looked at ${texts.length} texts in ${plots.length} plots`);
});
