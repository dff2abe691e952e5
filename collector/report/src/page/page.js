// Draws the page of the report that stands in it.

function render() {
  const report = JSON.parse(document.getElementById("report").textContent);
  const names = gpuNames(report.gpus);
  const timeline = new Timeline(report, names);
  document.title = `${report.title} · Phasemeter`;
  const sections = [head(report), answer(report, names), timeline.draw(), money(report), advice(report, names, timeline), holders(report, names),
    gpus(report, names), work(report), alerts(report, names), missing(report, names), prices(report)];
  document.getElementById("page").replaceChildren(...sections.filter(Boolean),
    element("footer", {}, "Made by Phasemeter from its JSON report, which is in the source of this page. Nothing is loaded from elsewhere."));
  if (!timeline.isEmpty) timeline.ticks();
}

render();
