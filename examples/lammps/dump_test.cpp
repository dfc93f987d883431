#include "dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lammps {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoAtoms =
    "ITEM: TIMESTEP\n"
    "30\n"
    "ITEM: NUMBER OF ATOMS\n"
    "2\n"
    "ITEM: BOX BOUNDS pp pp pp\n"
    "0.0000000000000000e+00 1.6795961913825074e+01\n"
    "0.0000000000000000e+00 1.6795961913825074e+01\n"
    "0.0000000000000000e+00 1.6795961913825074e+01\n"
    "ITEM: ATOMS id x y z vx vy vz \n"
    "4000 14.356481542373865 16.05730873363613 15.5 -1.1304866322388669 0 -1e-05 \n"
    "7 0.10000000000000001 2 3 4 5 6 \n";

Result<std::vector<particles::Particle>> Read(const std::string& text, uint64_t step = 30) {
  std::istringstream file(text);
  return ReadAtoms(file, "melt.dump", step);
}

TEST(LammpsDump, GivesItsAtomsBitByBit) {
  const auto atoms = Read(kTwoAtoms);
  ASSERT_OK(atoms.status());
  ASSERT_EQ(atoms->size(), 2u);
  EXPECT_EQ((*atoms)[0].id, 4000u);
  EXPECT_EQ((*atoms)[0].position,
            (std::array<double, 3>{14.356481542373865, 16.05730873363613, 15.5}));
  EXPECT_EQ((*atoms)[0].velocity, (std::array<double, 3>{-1.1304866322388669, 0, -1e-05}));
  EXPECT_EQ((*atoms)[1].id, 7u);
  EXPECT_EQ((*atoms)[1].position[0], 0.1);
}

// Each text with what stands in place of some of it, and what is said of that.
TEST(LammpsDump, SaysInWhichLineItIsNotWhatItShouldBe) {
  const std::string good = kTwoAtoms;
  const struct {
    std::string old, now, says;
  } cases[] = {{"\n30\n", "\n31\n", "line 2: it is of step 31"},
               {"\n30\n", "\n3O\n", "line 2: \"3O\" is not a number"},
               {"\n2\n", "\n-2\n", "line 4: \"-2\" is not a number"},
               {"\n2\n", "\n3\n", "line 12: not an id and six numbers"},
               {"\n2\n", "\n1\n", "line 11: more than the atoms it counts"},
               {" id x", " x id", "line 9: \"ITEM: ATOMS x id"},
               {" 15.5", "", "line 10: not an id and six numbers"},
               {" 15.5", " 1 15.5", "line 10: not an id and six numbers"},
               {" 15.5", " ?", "line 10: not an id and six numbers"}};
  for (const auto& one : cases) {
    std::string text = good;
    text.replace(text.find(one.old), one.old.size(), one.now);
    const Status status = Read(text).status();
    EXPECT_CODE(status, Code::kCorruption) << one.says;
    EXPECT_THAT(status.message(), HasSubstr("melt.dump, " + one.says));
  }
  EXPECT_THAT(Read("").status().message(), HasSubstr("line 1: the file ends here"));
}

TEST(LammpsDump, HasTheStepsOfItsFirstRank) {
  test::TempDirectory folder;
  EXPECT_CODE(StepsIn(folder.path()).status(), Code::kNotFound);
  EXPECT_CODE(StepsIn(folder / "absent").status(), Code::kIo);
  for (const char* name :
       {"melt.0.100.dump", "melt.0.20.dump", "melt.1.40.dump", "melt.0.x.dump", "log.lammps"}) {
    std::ofstream(folder / name) << "";
  }
  const auto steps = StepsIn(folder.path());
  ASSERT_OK(steps.status());
  EXPECT_THAT(*steps, testing::ElementsAre(20, 100));
  EXPECT_EQ(DumpPath("there", 3, 20), "there/melt.3.20.dump");
}

}  // namespace
}  // namespace quire::lammps
