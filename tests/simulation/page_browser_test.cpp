// The controls of the page of a simulation, in Chromium. Skipped if Chromium is not installed.
#include <stdlib.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tendril/rpc/observe/message_page.h"
#include "tendril/rpc/simulation.h"
#include "tests/browser.h"
#include "tests/contains.h"

using tendril::rpc::SimulationEvent;
using tendril::rpc::SimulationReport;
using tendril::test::contains;
using tendril::test::has_chromium;

namespace {

using std::chrono::microseconds;

const std::string kHostile = "</script><img src=x onerror=\"document.title='taken'\"><b>&'";

/// A page of three ranks, and a folder for the browser.
struct SimulationPage {
  SimulationPage() {
    std::string name = (std::filesystem::temp_directory_path() / "tendril_page_XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    report.ranks.resize(3);
    for (int rank = 0; rank < 3; ++rank) local("start", rank, "starts");  // 0, 1, 2
    message("request", 0, 1, "triple");                                   // 3
    message("reply", 1, 0, "triple");                                     // 4
    message("ping", 0, 2, "");                                            // 5
    local("fault", 2, "fault: kill");                                     // 6
    message("request", 0, 1, kHostile);                                   // 7
    message("error", 1, 0, kHostile);                                     // 8
    message("request", 1, 2, "lost");                                     // 9
    report.events.back().arrival = microseconds(-1);
    local("throw", 1, "throws " + kHostile);  // 10
    local("return", 0, "returns");            // 11
  }
  ~SimulationPage() { std::filesystem::remove_all(folder); }
  SimulationPage(const SimulationPage&) = delete;
  SimulationPage& operator=(const SimulationPage&) = delete;

  void local(const char* kind, int rank, const std::string& text) {
    report.events.push_back({.time = next_time(), .from = rank, .kind = kind, .text = text});
  }
  void message(const char* kind, int from, int to, const std::string& text) {
    const auto time = next_time();
    report.events.push_back({.time = time,
                             .arrival = time + microseconds(1500),
                             .from = from,
                             .to = to,
                             .kind = kind,
                             .text = text,
                             .connection = 4,
                             .bytes = 120,
                             .call_id = 9});
  }
  microseconds next_time() const { return microseconds(1000 * report.events.size()); }

  std::string shown(const std::string& script, const std::string& hash = "") const {
    return tendril::test::shown(folder, report.page(), script, hash);
  }

  SimulationReport report;
  std::filesystem::path folder;
};

/// Lists the step after each action, under the page.
const std::string kUse = R"js(
const said = document.body.appendChild(document.createElement('ol'));
const say = what => { said.innerHTML += '<li>' + what + ': ' + document.getElementById('where').textContent.split(' ')[1] + '</li>'; };
const click = id => { document.getElementById(id).click(); say(id); };
const press = key => { document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})); say(key); };
const choose = (id, value) => {
  const one = document.getElementById(id);
  one.value = value;
  one.dispatchEvent(new Event('change', {bubbles: true}));
};
)js";

void check_said(const std::string& dom, const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += "<li>" + item + "</li>";
  BOOST_TEST(contains(dom, all), all << "\n" << dom);
}

}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_chromium))
BOOST_FIXTURE_TEST_SUITE(page_browser, SimulationPage)

BOOST_AUTO_TEST_CASE(buttons_and_keys_step_through_the_events) {
  const std::string dom = shown(kUse +
                                "click('back'); click('next'); press('ArrowRight'); press('ArrowLeft'); press('f'); "
                                "click('error'); press('e'); click('error'); press('End'); press('Home');");
  check_said(dom, {"back: 0", "next: 1", "ArrowRight: 2", "ArrowLeft: 1", "f: 6", "error: 8", "e: 10", "error: 10",
                   "End: 11", "Home: 0"});
}

BOOST_AUTO_TEST_CASE(current_message_is_highlighted_and_described) {
  const std::string dom = shown("", "#3");
  BOOST_TEST(contains(dom, "<g class=\"event call now\"><line"), dom);
  for (const std::string detail :
       {"<dt>function</dt><dd>triple</dd>", "<dt>from</dt><dd>rank 0</dd>", "<dt>to</dt><dd>rank 1</dd>",
        "<dt>sent</dt><dd>3.000 ms</dd>", "<dt>arrived</dt><dd>4.500 ms, 1.500 ms later</dd>",
        "<dt>bytes</dt><dd>120</dd>", "<dt>connection</dt><dd>4</dd>", "<dt>call</dt><dd>9</dd>"})
    BOOST_TEST(contains(dom, detail), dom);
  BOOST_TEST(contains(dom, "rank 0 to rank 1: request triple</pre>"), dom);
  BOOST_TEST(contains(shown("", "#9"), "<dt>arrived</dt><dd>did not arrive</dd>"));
}

BOOST_AUTO_TEST_CASE(filters_hide_ranks_and_kinds) {
  const std::string pair = shown(kUse +
                                 "choose('one', '0'); choose('other', '2'); press('Home'); click('next'); "
                                 "click('next'); click('next'); click('next'); click('next');");
  check_said(pair, {"Home: 0", "next: 2", "next: 5", "next: 6", "next: 11", "next: 11"});
  const std::string kinds = shown(kUse +
                                  "document.querySelector('input[value=start]').click(); "
                                  "document.querySelector('input[value=reply]').click(); say('shown'); click('next');");
  check_said(kinds, {"shown: 3", "next: 5"});
  BOOST_TEST(contains(kinds, ": 8 of 12 events"), kinds);
}

BOOST_AUTO_TEST_CASE(hostile_texts_are_only_shown) {
  for (const std::string step : {"#7", "#8", "#10"}) {
    const std::string dom = shown("", step);
    BOOST_TEST(!contains(dom, "<img"));
    BOOST_TEST(!contains(dom, "<title>taken"));
    BOOST_TEST(contains(dom, "&lt;/script&gt;&lt;img src=x onerror="), dom);
  }
}

BOOST_AUTO_TEST_CASE(narrow_screen_is_not_scrolled_sideways) {
  // In a frame, because Chromium's windows cannot be as narrow.
  const std::string dom = tendril::test::shown(folder, "<!doctype html><iframe width=\"390\" height=\"844\"></iframe>",
                                               "const frame = document.querySelector('iframe');\nframe.srcdoc = " +
                                                   tendril::rpc::detail::json_literal(report.page()) + R"js(;
frame.onload = () => {
  const root = frame.contentDocument.documentElement;
  document.title = `width ${frame.contentWindow.innerWidth}, ` + (root.scrollWidth > root.clientWidth ? 'too wide' : 'fits');
};)js");
  BOOST_TEST(contains(dom, "<title>width 390, fits</title>"), dom.substr(0, 200));
}

BOOST_AUTO_TEST_CASE(report_without_events_is_shown) {
  report.events.clear();
  BOOST_TEST(contains(shown(""), ">step 0 of 0: all have ended<"));
}

BOOST_AUTO_TEST_CASE(long_run_draws_only_visible_rows) {
  while (report.events.size() < 20'000) message("request", 0, 1, "triple");
  const std::string dom = shown(kUse +
                                "press('End'); click('back'); "
                                "say(document.querySelectorAll('#rows g').length < 300 ? 'few' : 'many');");
  check_said(dom, {"End: 19999", "back: 19998", "few: 19998"});
}

BOOST_AUTO_TEST_SUITE_END()
