/** A TypeDoc plugin: members inherited from a documented type are described only there, and "Extends" links to it. */
export function load(app) {
  // After types and inheritance are resolved, but before groups list the members.
  app.converter.on(
    "resolveEnd",
    ({ project }) => {
      const inherited = Object.values(project.reflections).filter(
        (member) => member.inheritedFrom?.reflection,
      );
      for (const member of inherited)
        if (project.getReflectionById(member.id)) project.removeReflection(member);
    },
    1000,
  );
}
