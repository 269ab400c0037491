// The page in Chromium, without a window: what its buttons and keys do. Skipped where there is none.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/browser.h"
#include "tests/example_program.h"

using tendril::test::contains;
using tendril::test::ExampleProgram;
using tendril::test::has_chromium;

namespace {

/// The page of the graph with an unused result.
struct Page : ExampleProgram {
  Page() {
    BOOST_TEST(run("--html page.html").status == 0);
    text = tendril::test::read_file(folder / "page.html");
  }

  std::string shown(const std::string& script, const std::string& hash = "") const {
    return tendril::test::shown(folder, text, script, hash);
  }

  std::string text;
};

/// A list of what it says after each thing that is done to it, under the page.
const std::string kUse = R"js(
const said = document.body.appendChild(document.createElement('ol'));
const where = () => document.getElementById('where').textContent;
const say = what => { said.innerHTML += '<li>' + what + ': ' + where() + '</li>'; };
const click = id => { document.getElementById(id).click(); say(id); };
const press = key => { document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})); say(key); };
)js";

/// How many steps the page has.
std::string last_step(const std::string& dom) {
  const std::string first = "<li>begin: step 0 of ";
  const auto at = dom.find(first);
  BOOST_TEST_REQUIRE(at != std::string::npos, dom);
  const auto begin = at + first.size();
  return dom.substr(begin, dom.find_first_not_of("0123456789", begin) - begin);
}

}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_chromium))
BOOST_FIXTURE_TEST_SUITE(browser, Page)

BOOST_AUTO_TEST_CASE(it_shows_the_step_that_its_address_names) {
  const std::string last = shown("", "#last");
  BOOST_TEST(contains(last, ": backward returns</b>"), last);
  BOOST_TEST(contains(last, "rank 0: finish</pre>"));
  BOOST_TEST(contains(last, "class=\"had\"></circle><text"));
  BOOST_TEST(contains(last, "class=\"dropped\""));
  const std::string first = shown("", "#0");
  BOOST_TEST(contains(first, ">step 0 of "), first);
  BOOST_TEST(contains(first, "rank 0 runs its graph</pre>"));
}

BOOST_AUTO_TEST_CASE(next_goes_on_back_goes_back_and_neither_leaves_the_steps) {
  const std::string dom = shown(kUse + "say('begin'); click('back'); click('next'); click('next'); click('back');");
  const std::string last = last_step(dom);
  for (const std::string item : {"begin: step 0", "back: step 0", "next: step 1", "next: step 2", "back: step 1"})
    BOOST_TEST(contains(dom, "<li>" + item + " of " + last + "</li>"), dom);
  // And what is drawn is of that step: the one after it is not the one before it.
  BOOST_TEST(contains(dom, "<b id=\"where\">step 1 of " + last + "</b>"), dom);
  const auto lines_of = [](const std::string& all) {
    const auto at = all.find("<pre id=\"lines\">");
    return all.substr(at, all.find("</pre>", at) - at);
  };
  BOOST_TEST(lines_of(dom) == lines_of(shown("", "#1")));
  BOOST_TEST(lines_of(dom) != lines_of(shown("", "#2")));
}

BOOST_AUTO_TEST_CASE(run_goes_step_by_step_to_the_end) {
  const std::string dom = shown(kUse + "say('begin'); click('run'); setTimeout(() => say('later'), 1000);");
  const std::string last = last_step(dom);
  BOOST_TEST(contains(dom, "<li>run: step 1 of " + last + "</li>"), dom);
  BOOST_TEST(contains(dom, "<li>later: step 2 of " + last + "</li>"), dom);
  BOOST_TEST(contains(dom, "<b id=\"where\">step " + last + " of " + last + ": backward returns</b>"), dom);
}

BOOST_AUTO_TEST_CASE(the_arrow_keys_do_what_the_buttons_do_and_other_keys_nothing) {
  const std::string dom = shown(kUse +
                                "say('begin'); press('ArrowLeft'); press('ArrowRight'); press('ArrowRight'); "
                                "press('x'); press('ArrowLeft');");
  const std::string last = last_step(dom);
  for (const std::string item :
       {"ArrowLeft: step 0", "ArrowRight: step 1", "ArrowRight: step 2", "x: step 2", "ArrowLeft: step 1"})
    BOOST_TEST(contains(dom, "<li>" + item + " of " + last + "</li>"), dom);
}

BOOST_AUTO_TEST_SUITE_END()
